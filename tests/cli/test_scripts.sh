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
