# scripts/fetch_data.sh against a server of our own, with small archives of the official forms.

archives=$(mktemp -d "$work/fetch-XXXXXX")
server='' address='' log=$archives/log

# fetch ARGUMENT...: runs the script with the sources below, from the server, into data
fetch() {
    [ -n "$case_name" ] || return 0
    status=0
    : >"$log"
    sh "$root/scripts/fetch_data.sh" --table "$archives/table" --base-url "$address/${how:-plain}" "$@" >out 2>err ||
        status=$?
}

row() { # NAME FOLDER LAYOUT FILE [-]: a line of the table, with the checksum of the file or without
    local bytes=- sum=-
    if [ -z "${5-}" ]; then
        bytes=$(wc -c <"$archives/$4")
        sum=$(sha256sum <"$archives/$4" | cut -d ' ' -f 1)
    fi
    echo "$1 $2 $3 $bytes $sum https://data.example/some/where/$4" >>"$archives/table"
}

make_archives() (
    cd "$archives" && mkdir make && cd make || return 1
    mkdir -p SST-2 QNLI __MACOSX/SST-2 QQP aclImdb/train/pos aclImdb/test/neg wikitext-103-raw novels/train-novels
    for part in train dev test; do printf 'sentence\tlabel\n"a quote\t1\n' >SST-2/$part.tsv; done
    head -c 5000 /dev/urandom >SST-2/noise # so that the archive takes several pieces of the server
    printf 'index\tquestion\tsentence\tlabel\n' >QNLI/train.tsv
    printf 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n' | tee QQP/train.tsv >QQP/dev.tsv
    # the third row is broken by a line break in its first question
    printf '1\t1\t2\tWhat?\tHow?\t0\n2\t3\t4\tWho?\tWhy?\t1\n3\t5\t6\t"Was it\n"\tIs it?\t0\n4\t7\t8\tWhen?\tWhere?\t1\n' >>QQP/train.tsv
    printf '1\t1\t2\tWhat?\tHow?\t0\n' >>QQP/dev.tsv
    : >__MACOSX/SST-2/._train.tsv
    echo 'Good.' >aclImdb/train/pos/0_9.txt
    echo 'Bad.' >aclImdb/test/neg/0_2.txt
    printf ' \n = One = \n \n First text . \n = 3 = = 3 . \n \n = = Part = = \n \n More . \n \n = Two = \n \n Text . \n' \
        >wikitext-103-raw/wiki.train.raw
    cp wikitext-103-raw/wiki.train.raw wikitext-103-raw/wiki.valid.raw
    cp wikitext-103-raw/wiki.train.raw wikitext-103-raw/wiki.test.raw
    mkdir wiki
    for i in 0 90000 100000; do
        awk -v from=$i 'BEGIN {
            for (i = from; i < from + 1001; i++) {
                print "<doc id=\"" i "\" title=\"T\" nonfiltered=\"1\" processed=\"1\" dbindex=\"1\">\n"
                printf "Article %d, caf\351.\n\nIts second paragraph.\n\n", i
                print "ENDOFARTICLE.\n</doc>"
            }
        }' >wiki/englishText_${i}_$((i + 10000))
    done
    for genre in Romance 'Science fiction'; do
        mkdir -p "novels/train-novels/$genre"
        for i in $(seq 60); do
            printf 'novel %d of %s .\n\n   \nthe end .\n' $i "$genre" >"novels/train-novels/$genre/$i.txt"
        done
    done
    python3 -m zipfile -c ../SST-2.zip SST-2 __MACOSX &&
        python3 -m zipfile -c ../QNLIv2.zip QNLI &&
        python3 -m zipfile -c ../QQP-clean.zip QQP &&
        python3 -m zipfile -c ../wikitext-103-raw-v1.zip wikitext-103-raw &&
        python3 -m zipfile -c ../two.zip SST-2 QNLI &&
        tar -czf ../aclImdb_v1.tar.gz aclImdb &&
        tar -czf ../raw.en.tgz -C wiki . &&
        tar -cf train-novels.tar -C novels train-novels &&
        tar -czf ../lambada-dataset.tar.gz train-novels.tar
)

start_server() {
    python3 "$root/tests/cli/file_server.py" "$archives" "$archives/port" "$log" &
    server=$!
    for _ in $(seq 100); do
        [ ! -s "$archives/port" ] || break
        sleep 0.1
    done
    address=http://127.0.0.1:$(cat "$archives/port") || return 1
}

missing=
for tool in python3 curl unzip; do command -v $tool >/dev/null || missing="$missing $tool"; done
if [ -n "$missing" ]; then
    begin all && skip "not installed:$missing"
    return 0
fi
make_archives && start_server || return 1
row SST-2 glue/SST-2 folder SST-2.zip
row QNLI glue/QNLI folder QNLIv2.zip
row QQP glue/QQP rows QQP-clean.zip
row IMDB aclImdb folder aclImdb_v1.tar.gz
row wikitext-103 wikitext-103 wikitext wikitext-103-raw-v1.zip
row wiki wiki wikicorpus raw.en.tgz
row books books lambada lambada-dataset.tar.gz
row unknown unknown folder SST-2.zip -
row gone gone folder aclImdb_v1.tar.gz
sed -i '/^gone/s/aclImdb_v1/no-such-file/' "$archives/table"
row two two folder two.zip

begin tasks && {
fetch glue imdb
expect_status 0
expect_no_out
for file in glue/SST-2/train.tsv glue/SST-2/dev.tsv glue/QNLI/train.tsv glue/QQP/train.tsv aclImdb/train/pos/0_9.txt \
    aclImdb/test/neg/0_2.txt; do
    expect_file data/$file
done
expect "train.tsv is changed" cmp -s data/glue/SST-2/train.tsv "$archives/make/SST-2/train.tsv"
expect "temporary folders stay" [ -z "$(find data -name '.fetch.*' -o -name '*.part' -o -name __MACOSX)" ]
expect "checksums.sha256 is wrong" sh -c 'cd data && sha256sum --quiet -c checksums.sha256'
# a second time nothing happens, also without the archives
find data | sort >before
fetch glue IMDB
expect_status 0
expect_err "data/aclImdb is there"
expect "asked the server: $(cat "$log")" [ ! -s "$log" ]
find data | sort >after
expect "the second run changed data" cmp -s before after
rm -r data/archives
fetch SST-2
expect_status 0
expect "asked the server: $(cat "$log")" [ ! -s "$log" ]
}

begin broken_rows && {
fetch QQP
expect_status 0
expect_err "QQP: dropped from train.tsv: 2 rows that have not the 6 columns of the header, lines 4 5"
expect "something of dev.tsv is dropped" [ "$(grep -c dropped err)" = 1 ]
expect "rows left: $(cut -f1 data/glue/QQP/train.tsv | tr '\n' ' ')" [ "$(cut -f1 data/glue/QQP/train.tsv | tr '\n' ' ')" = "id 1 2 4 " ]
expect "dev.tsv is changed" cmp -s data/glue/QQP/dev.tsv "$archives/make/QQP/dev.tsv"
expect "not recorded" grep -q '^dropped train.tsv: 2 rows .* lines 4 5$' data/glue/QQP/.fetched
fetch --check QQP
expect_status 0
expect_out "QQP: intact"
}

# What has its final name is complete, and that goes for its record too: here a folder stands where it is to be written.
begin no_record && {
mkdir -p some/.fetched
tar -czf "$archives/some.tar.gz" some
echo "some some folder - - https://data.example/some/where/some.tar.gz" >table
fetch --table table some
expect_status 1
expect_err "some: cannot write .fetched"
expect "the data are there without a record" [ ! -e data/some ]
rm -r "$archives/some.tar.gz"
}

begin check && {
fetch --check
expect_status 0
expect_out "nothing was fetched"
fetch SST-2 QNLI
fetch --check
expect_status 0
expect_out "SST-2: intact"
expect_out "QNLI: intact"
fetch --check QQP
expect_status 1
expect_out "QQP: not there"
echo more >>data/glue/QNLI/train.tsv
fetch --check
expect_status 1
expect_out "SST-2: intact"
expect_out "QNLI: data/glue/QNLI is not what was unpacked"
rm data/glue/SST-2/test.tsv
fetch --check SST-2
expect_status 1
}

begin pretraining_text && {
fetch wikitext-103 wiki books
expect_status 0
printf ' = One = \n First text . \n = 3 = = 3 . \n = = Part = = \n More . \n\n = Two = \n Text . \n' >wanted
expect "wikitext: $(diff wanted data/wikitext-103/train.txt)" cmp -s wanted data/wikitext-103/train.txt
expect_file data/wikitext-103/valid.txt
for i in 0 1 2; do expect_file data/wiki/wiki-00$i.txt.gz; done
expect "3003 articles" [ "$(zcat data/wiki/*.txt.gz | grep -c '^Article [0-9]*, café\.$')" -eq 3003 ]
expect "3 articles held out" [ "$(zcat data/wiki/valid.txt.gz | grep -c '^Article')" -eq 3 ]
expect "an article of three paragraphs" [ "$(zcat data/wiki/wiki-001.txt.gz | head -n 4 | tr '\n' '|')" = \
    "Article 90000, café.|Its second paragraph.||Article 90001, café.|" ]
expect "numeric order" [ "$(zcat data/wiki/wiki-002.txt.gz | head -n 1)" = "Article 100000, café." ]
expect_file data/books/books-Science_fiction.txt.gz
expect "a novel: one document" [ "$(zcat data/books/books-Romance.txt.gz | head -n 3 | tr '\n' '|')" = \
    "novel 1 of Romance .|the end .||" ]
expect "120 novels" [ "$(zcat data/books/*.txt.gz | grep -c '^novel')" -eq 120 ]
expect "one held out" [ "$(zcat data/books/valid.txt.gz | grep -c '^novel')" -eq 1 ]
# what the configs ask for
run plan "$root/configs/pretrain/small.yaml" "data.train=data/*/[wb]*-*.txt.gz" "data.valid=data/*/valid*.txt.gz"
expect_status 0
}

begin interrupted_download && {
mkdir -p data/archives
head -c 1500 "$archives/SST-2.zip" >data/archives/SST-2.zip.part
fetch SST-2
expect_status 0
expect "goes on after 1500 bytes: $(cat "$log")" grep -q '/SST-2.zip bytes=1500-$' "$log"
expect "one request" [ "$(wc -l <"$log")" -eq 1 ]
expect_file data/glue/SST-2/train.tsv
}

begin connection_breaks_off && {
how=broken fetch SST-2
expect_status 0
expect_err "broken off after 2500 bytes"
expect "goes on: $(cat "$log")" grep -q 'bytes=5000-$' "$log"
expect_file data/glue/SST-2/train.tsv
}

begin server_without_ranges && {
mkdir -p data/archives
head -c 1500 "$archives/SST-2.zip" >data/archives/SST-2.zip.part
how=whole fetch SST-2
expect_status 0
expect_err "cannot continue a download"
expect_file data/glue/SST-2/train.tsv
}

begin interrupted_unpacking && {
mkdir -p data/archives
cp "$archives/SST-2.zip" data/archives
fetch SST-2
expect_status 0
expect "asked the server: $(cat "$log")" [ ! -s "$log" ]
expect_file data/glue/SST-2/train.tsv
}

begin wrong_checksum && {
mkdir -p data/archives
head -c 1500 /dev/zero >data/archives/SST-2.zip.part
fetch SST-2 QNLI
expect_status 1
expect_err "wrong checksum"
expect_err "wanted $(sha256sum <"$archives/SST-2.zip" | cut -d ' ' -f 1)"
expect_err "found  $(sha256sum <data/archives/SST-2.zip.part | cut -d ' ' -f 1)"
expect "the file is gone" [ "$(wc -c <data/archives/SST-2.zip.part)" -eq "$(wc -c <"$archives/SST-2.zip")" ]
expect "unpacked all the same" [ ! -e data/glue/SST-2 ]
expect_file data/glue/QNLI/train.tsv # the others are fetched
fetch SST-2
expect_status 1
expect_err "wrong checksum"
expect "asked the server: $(cat "$log")" [ ! -s "$log" ]
rm data/archives/SST-2.zip.part
fetch SST-2
expect_status 0
}

begin first_copy && {
fetch unknown
expect_status 0
expect_err "this first copy is believed"
expect "recorded" grep -q '  archives/SST-2.zip$' data/checksums.sha256
rm -r data/unknown data/archives
fetch unknown
expect_status 0
mv data/checksums.sha256 old
sed 's/^[0-9a-f]*/0000/' old >data/checksums.sha256
rm -r data/unknown data/archives
fetch unknown
expect_status 1
expect_err "wanted 0000 (data/checksums.sha256)"
}

begin login_page && {
how=page fetch unknown
expect_status 1
expect_err "could not be unpacked"
expect "recorded as the first copy" [ ! -s data/checksums.sha256 ]
expect "unpacked" [ ! -e data/unknown ]
how=page fetch SST-2
expect_status 1
expect_err "wrong checksum"
}

begin server_errors && {
fetch gone
expect_status 1
expect_err "no-such-file.tar.gz: the server answers 404"
expect "left something" [ -z "$(find data -type f)" ]
sh "$root/scripts/fetch_data.sh" --table "$archives/table" --base-url http://127.0.0.1:1 SST-2 >out 2>err
status=$?
expect_status 1
expect_err "http://127.0.0.1:1/some/where/SST-2.zip: not reached"
LINFORMER_DATA_URL=$address/plain/ sh "$root/scripts/fetch_data.sh" --table "$archives/table" SST-2 >out 2>err
status=$?
expect_status 0
}

begin refuses && {
fetch SST-3
expect_status 2
expect_err "no data set SST-3; there are SST-2 QNLI"
expect "asked the server: $(cat "$log")" [ ! -s "$log" ]
fetch
expect_status 2
fetch --nonsense SST-2
expect_status 2
expect_err "no option --nonsense"
fetch two
expect_status 1
expect_err "two.zip: found 2 things in it, wanted one folder"
mkdir data/wiki
fetch wiki
expect_status 0
mkdir data/books
echo mine >data/books/books-000.txt
fetch books
expect_status 1
expect_err "data/books is there and was not made by this script"
expect "changed" [ "$(cat data/books/books-000.txt)" = mine ]
}

begin missing_tool && {
mkdir bin
for tool in sh awk cat cut dirname ls mkdir tr wc; do ln -s "$(command -v $tool)" bin/; done
PATH=$PWD/bin fetch SST-2
expect_status 1
expect_err "sha256sum is needed and not installed; Debian and Ubuntu: apt-get install coreutils"
ln -s "$(command -v sha256sum)" bin/
PATH=$PWD/bin fetch SST-2
expect_status 1
expect_err "apt-get install curl"
ln -s "$(command -v curl)" bin/
PATH=$PWD/bin fetch SST-2
expect_status 1
expect_err "apt-get install unzip"
}

begin wget && {
if command -v wget >/dev/null; then
    mkdir -p bin data/archives
    for tool in sh awk cat chmod cut dirname find grep ls mkdir mktemp mv rm rmdir sed sha256sum sleep sort tr unzip wc wget \
        xargs; do
        ln -s "$(command -v $tool)" bin/
    done
    head -c 1500 "$archives/SST-2.zip" >data/archives/SST-2.zip.part
    PATH=$PWD/bin fetch SST-2
    expect_status 0
    expect "goes on after 1500 bytes: $(cat "$log")" grep -q '/SST-2.zip bytes=1500-$' "$log"
    PATH=$PWD/bin fetch gone
    expect_status 1
else
    skip "no wget here"
fi
}

# The list that is shipped: every name once, with a checksum.
begin sources && {
sh "$root/scripts/fetch_data.sh" --list >out 2>err
status=$?
expect_status 0
for name in SST-2 QNLI QQP IMDB wikitext-103 wiki books; do expect_out "$name"; done
expect_out "data/aclImdb"
expect_out "https://dl.fbaipublicfiles.com/glue/data/SST-2.zip"
bad=$(awk '!/^#/ && NF && (NF != 6 || length($5) != 64 || $4 !~ /^[0-9]+$/ || seen[$1]++ || place[$2]++)' \
    "$root/scripts/fetch_data.txt")
expect "not as it should be: $bad" [ -z "$bad" ]
}

finish_case
kill "$server"
rm -rf "$archives"
