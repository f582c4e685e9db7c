# shellcheck shell=bash
# The scripts behind the Makefile, where the machine is not as usual.

# write_tree: a tree of one good source that lint.sh can check, with no git around it
write_tree() {
    [ -n "$case_name" ] || return 0
    mkdir -p tree/scripts tree/src/base tree/include tree/tests tree/.ci
    cp "$root/scripts/lint.sh" tree/scripts/
    printf 'int x_one(void);\n' >tree/include/x.h
    printf '#include "x.h"\n\nint x_one(void) {\n    return 1;\n}\n' >tree/src/base/x.c
    printf '#!/bin/sh\n' >tree/.ci/run
    printf 'all:\n' >tree/Makefile
}

# lint: runs it without git; waiting for text on stdin, which a list of no files would be, is a failure
lint() {
    [ -n "$case_name" ] || return 0
    status=0
    [ -p pipe ] || mkfifo pipe
    GIT_DIR=/nowhere timeout 50 sh tree/scripts/lint.sh <>pipe >out 2>&1 || status=$?
}

begin lint_without_git && {
    write_tree
    lint
    expect_status 0
    expect_out "lint passed"
    printf '\tint y;\n' >>tree/src/base/x.c
    lint
    expect_status 1
    expect_out "lint failed: tabs"
    rm -r tree/src tree/include
    lint
    expect_status 1
    expect_out "no sources found"
}

# deps ASSIGNMENT...: install_deps.sh where any call of apt-get or sudo fails loudly
deps() {
    [ -n "$case_name" ] || return 0
    mkdir -p bin
    printf '#!/bin/sh\necho "called: $0 $*" >&2\nexit 1\n' >bin/apt-get
    cp bin/apt-get bin/sudo
    chmod +x bin/apt-get bin/sudo
    status=0
    env PATH="$PWD/bin:$PATH" "$@" sh "$root/scripts/install_deps.sh" >out 2>err || status=$?
}

begin dependencies_as_given && {
    deps CC="env gcc" CXX="env g++"
    expect_status 0
    expect "called something: $(cat err)" [ ! -s err ]
    deps PKG_CONFIG=false BLAS_LIBS=x YAML_LIBS=x CJSON_LIBS=x SPM_LIBS=x ZLIB_LIBS=x ZSTD_LIBS=x XXHASH_LIBS=x
    expect_status 0
    expect "called something: $(cat err)" [ ! -s err ]
    deps PKG_CONFIG=false YAML_LIBS=x CJSON_LIBS=x SPM_LIBS=x ZLIB_LIBS=x ZSTD_LIBS=x XXHASH_LIBS=x
    expect_status 1
    expect_out "installing: libopenblas-openmp-dev"
    deps CC=no-such-compiler
    expect_status 1
    expect_out "installing: gcc"
}

# task_text ARGUMENT...: make_task_text.sh, what it prints in `out`, what it says in `err`
task_text() {
    [ -n "$case_name" ] || return 0
    status=0
    sh "$root/scripts/make_task_text.sh" "$@" >out 2>err || status=$?
}

begin text_of_tasks && {
    printf 'id\tquestion2\tquestion1\tis_duplicate\n0\tWhy "is\tWho?\t1\n1\tB\tA\t0\n' >pairs.tsv
    gzip -c pairs.tsv >pairs.tsv.gz
    printf 'who?\nwhy "is\n\na\nb\n\n' >wanted
    for file in pairs.tsv pairs.tsv.gz; do
        task_text qqp $file
        expect_status 0
        expect "the text of $file: $(cat out)" cmp -s out wanted
    done
    mkdir -p reviews/pos reviews/neg
    printf 'Fine.' >reviews/pos/0_9.txt
    printf 'Poor.\nVery.' >reviews/neg/0_1.txt
    task_text imdb reviews
    printf 'poor.\nvery.\n\nfine.\n\n' >wanted
    expect "the text of a folder: $(cat out)" cmp -s out wanted
    printf 'sentence\tlabel\nGood\t1\nBad\t0\n' >films.tsv
    task_text sst2 films.tsv films.tsv
    printf 'good\nbad\n\ngood\nbad\n\n' >wanted
    expect "no document spans two files: $(cat out)" cmp -s out wanted
    task_text sst2 pairs.tsv
    expect_status 1
    expect "what it said: $(cat err)" [ "$(cat err)" = 'pairs.tsv: the header has no column sentence' ]
    : >empty.tsv
    task_text qnli empty.tsv
    expect_status 1
    expect "what it said: $(cat err)" grep -q 'empty.tsv: no rows' err
    task_text mnli pairs.tsv
    expect_status 2
    { echo sentence; seq 41; } >many.tsv
    task_text sst2 many.tsv
    expect "forty in a document: $(grep -n '^$' out | paste -sd' ')" [ "$(grep -n '^$' out | paste -sd' ')" = '41: 43:' ]
    printf 'sentence\nÉTAT Good\n' >accents.tsv
    for locale in C C.UTF-8; do
        LC_ALL=$locale task_text sst2 accents.tsv
        expect "in $locale: $(cat out)" grep -qx 'État good' out
    done
    printf 'id\tquestion1\tquestion2\n0\tWho?\tWhy?\n1\tHow?\n' >short.tsv
    task_text qqp short.tsv
    expect_status 1
    expect "what it said: $(cat err)" [ "$(cat err)" = 'short.tsv: line 3: no column question2' ]
    head -c 40 pairs.tsv.gz >cut.tsv.gz
    task_text qqp cut.tsv.gz pairs.tsv
    expect "a truncated file is taken: $(cat out)" [ "$status" != 0 ]
    expect "what it said: $(cat err)" [ "$(grep -c cut.tsv.gz err)" = 1 ]
    expect_no_out
    rm reviews/neg/*
    task_text imdb reviews
    expect_status 0
    rm -r reviews/neg
    task_text imdb reviews
    expect_status 1
    expect "what it said: $(cat err)" [ "$(cat err)" = 'reviews: no folder neg' ]
    mkdir reviews/neg
    rm reviews/pos/*
    task_text imdb reviews
    expect_status 1
    expect "what it said: $(cat err)" [ "$(cat err)" = 'reviews: no reviews' ]
}
