#!/bin/sh
# fetch_data.sh [OPTION...] NAME...: fetches data sets and lays them out as the configs expect; see usage() below.
#
# An archive is downloaded to DIR/archives/FILE.part, compared with its checksum, renamed, unpacked into a temporary
# folder, and that folder is renamed to its place: what has its final name is complete, whatever was interrupted.
# The file .fetched in a data folder says which archive it was made from, what it then held and what was dropped.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    cat <<'END_OF_USAGE'
usage: fetch_data.sh [OPTION...] NAME...

Fetches data sets and unpacks them as the configs expect them. What is there already is left alone, and an
interrupted download goes on where it stopped. NAME is a name of --list, or glue (SST-2, QNLI, QQP), or all.

  --dir DIR       where to put them (data)
  --base-url URL  take every archive from this server: replaces https://HOST of each address, and may
                  end in a path (the variable LINFORMER_DATA_URL does the same)
  --table FILE    another list of sources (fetch_data.txt beside this script, which explains its form)
  --list          the names, with size, folder and address
  --check         compare what was unpacked, and the archives still there, with what was fetched

The archives stay in DIR/archives, their checksums in DIR/checksums.sha256; the archives may be deleted.
Exit status: 0 done, 1 failed, 2 usage.
END_OF_USAGE
}

say() { echo "fetch_data: $*" >&2; }

# need TOOL PACKAGE
need() {
    command -v "$1" >/dev/null 2>&1 && return 0
    say "$1 is needed and not installed; Debian and Ubuntu: apt-get install $2"
    return 1
}

# ---- sources

names() { awk '!/^#/ && NF { print $1 }' "$table"; }

# Sets name, folder, layout, bytes, sha256, url of the source of that name, in upper or lower case.
look_up() {
    line=$(awk -v name="$1" '!/^#/ && NF && tolower($1) == tolower(name)' "$table")
    [ -n "$line" ] || return 1
    read -r name folder layout bytes sha256 url <<END_OF_LINE
$line
END_OF_LINE
    case $layout:$url in
    folder:?* | rows:?* | wikitext:?* | wikicorpus:?* | lambada:?*) ;;
    *) say "$table: $name: wanted name, folder, layout, bytes, sha256, address" && exit 2 ;;
    esac
    archive=${url##*/}
    if [ -n "$base_url" ]; then
        path=${url#*://}
        url=${base_url%/}/${path#*/}
    fi
}

list() {
    printf '%-14s %8s  %s\n' name size 'folder, address'
    for one in $(names); do
        look_up "$one"
        size='?'
        if [ "$bytes" != - ]; then size="$((bytes / 1000000)) MB"; fi
        printf '%-14s %8s  %s\n' "$name" "$size" "$dir/$folder"
        printf '%-14s %8s  %s\n' '' '' "$url"
    done
}

# ---- download

size_of() { if [ -f "$1" ]; then wc -c <"$1" | tr -d ' '; else echo 0; fi; }

# transfer URL FILE: goes on where FILE ends.  Prints the HTTP status where it is known; returns that of the tool.
transfer() {
    if command -v curl >/dev/null 2>&1; then
        progress=-sS
        if [ -t 2 ]; then progress=--progress-bar; fi
        curl "$progress" --fail --location --connect-timeout 30 --speed-limit 1 --speed-time 60 \
            --continue-at - --output "$2" --write-out '%{http_code}' "$1"
    else
        progress=-q
        if [ -t 2 ]; then progress=--show-progress; fi
        wget -q "$progress" --tries=3 --timeout=60 --continue --output-document="$2" "$1"
    fi
}

# download URL FILE: to FILE.  A connection that breaks off is taken up again as long as something arrives.
download() {
    while :; do
        before=$(size_of "$2")
        code=$(transfer "$1" "$2")
        status=$?
        after=$(size_of "$2")
        [ "$status" -ne 0 ] || return 0
        # asked for what comes after the last byte
        if [ "$code" = 416 ] && [ "$before" -gt 0 ]; then return 0; fi
        if [ "$status" -eq 33 ] || [ "$status" -eq 36 ]; then
            say "this server cannot continue a download: from the start"
            rm -f "$2"
            [ "$before" -gt 0 ] && continue
        fi
        case $code in [45]??) break ;; esac
        [ "$after" -gt "$before" ] || break
        say "broken off after $after bytes: going on"
        sleep 1
    done
    case $code in
    404 | 410) say "$1: the server answers $code, no such file: is there another server for --base-url?" ;;
    [45]??) say "$1: the server answers $code" ;;
    *) say "$1: not reached, refused or broken off (status $status of the download tool)" ;;
    esac
    if [ "$after" -gt 0 ]; then say "$2 has $after bytes; the same command goes on from there"; fi
    return 1
}

# ---- checksums

sha256_of() { sha256sum <"$1" | cut -d ' ' -f 1; }
recorded_sha256() { # FILE below DIR
    [ ! -f "$dir/checksums.sha256" ] || awk -v file="$1" '$2 == file { print $1 }' "$dir/checksums.sha256"
}
record_sha256() { # HASH FILE
    [ "$(recorded_sha256 "$2")" = "$1" ] || echo "$1  $2" >>"$dir/checksums.sha256"
}

# Compares a downloaded file with the checksum of the table, or else with that of the first copy.
verify() {
    found=$(sha256_of "$1")
    wanted=$sha256 wanted_by=$table
    if [ "$wanted" = - ]; then
        wanted=$(recorded_sha256 "archives/$archive") wanted_by=$dir/checksums.sha256
        if [ -z "$wanted" ]; then
            say "$archive: no checksum is known: this first copy is believed, $found"
            return 0
        fi
    fi
    [ "$found" != "$wanted" ] || return 0
    say "$1: wrong checksum, not unpacked and not deleted"
    say "  found  $found, $(size_of "$1") bytes"
    say "  wanted $wanted$([ "$bytes" = - ] || echo ", $bytes bytes") ($wanted_by)"
    say "  if it was damaged on the way: rm '$1' and fetch again; if the publisher changed it: change that line"
    return 1
}

# What this source needs, before its download and not after.
need_tools() {
    command -v curl >/dev/null 2>&1 || command -v wget >/dev/null 2>&1 || need curl curl || return 1
    case $archive in
    *.zip) need unzip unzip || return 1 ;;
    *.tar.gz | *.tgz) need tar tar && need gzip gzip || return 1 ;;
    *) say "$archive: found neither .zip nor .tar.gz nor .tgz" && return 1 ;;
    esac
    [ "$layout" != wikicorpus ] || need iconv libc-bin
}

# fetch_archive: leaves the verified archive at DIR/archives/ARCHIVE
fetch_archive() {
    target=$dir/archives/$archive
    if [ ! -f "$target" ]; then
        mkdir -p "$dir/archives" || return 1
        if [ "$bytes" = - ] || [ "$(size_of "$target.part")" -lt "$bytes" ]; then
            say "$name: $url"
            download "$url" "$target.part" || return 1
        fi
        verify "$target.part" && mv "$target.part" "$target"
    else
        verify "$target"
    fi
}

# ---- unpacking: layout_* FROM TO turns what the archive held into the data folder TO, which is there and empty

unpack() { # ARCHIVE FOLDER
    case $1 in
    *.zip) unzip -q "$1" -d "$2" ;;
    *) tar -xzf "$1" -C "$2" --no-same-owner ;;
    esac && rm -rf "$2/__MACOSX"
}

# The one folder that the archive holds.
layout_folder() {
    set -- "$2" "$1"/*
    if [ $# -ne 2 ] || [ ! -d "$2" ]; then
        say "$archive: found $(($# - 1)) things in it, wanted one folder"
        return 1
    fi
    rmdir "$1" && mv "$2" "$1"
}

# The same without the rows of its .tsv files that have fewer or more columns than the header, as where a line break
# stands in a text: no reader can tell what they were.  Which ones is said, and recorded in .fetched.
layout_rows() {
    layout_folder "$1" "$2" || return 1
    find "$2" -type f -name '*.tsv' | sort >"$work/files"
    while read -r file; do
        awk -F '\t' -v dropped="$work/dropped" '
            NR == 1 { columns = NF }
            NF == columns { print; next }
            { print NR >dropped }
        ' "$file" >"$work/kept" || return 1
        [ -s "$work/dropped" ] || continue
        columns=$(head -n 1 "$file" | awk -F '\t' '{ print NF }')
        mv "$work/kept" "$file" || return 1
        count=$(wc -l <"$work/dropped" | tr -d ' ')
        note="${file#"$2"/}: $count rows that have not the $columns columns of the header, lines"
        note="$note $(head -n 20 "$work/dropped" | paste -s -d ' ' -)$([ "$count" -le 20 ] || echo ' ...')"
        rm "$work/dropped"
        say "$name: dropped from $note"
        echo "dropped $note" >>"$work/notes"
    done <"$work/files"
}

# Blank lines stand around every heading; only those between articles may stay.  A title is " = Name = ".
layout_wikitext() {
    for part in train valid test; do
        file=$(find "$1" -type f -name "wiki.$part.raw")
        [ -n "$file" ] || { say "$archive: found no wiki.$part.raw in it"; return 1; }
        awk '
            /^ *$/ { blank = 1; next }
            blank && /^ = [^=].* = *$/ && printed { print "" }
            { print; printed = 1; blank = 0 }
        ' "$file" >"$2/$part.txt" && rm "$file" || return 1
    done
}

# <doc ...>, paragraphs, ENDOFARTICLE., </doc>; 164 files in Latin-1.  Every thousandth article is held out.
layout_wikicorpus() {
    count=0
    (cd "$1" && find . -type f -name 'englishText_*') | sort -t _ -k 2n >"$work/files"
    while read -r file; do
        shard=$(printf 'wiki-%03d.txt' "$count")
        iconv -f ISO-8859-1 -t UTF-8 <"$1/$file" | awk -v valid="$2/valid.txt" '
            /^<doc / { held_out = ++articles % 1000 == 0; next }
            /^<\/doc>/ || /^[ \t\r]*$/ { next }
            /^ENDOFARTICLE/ { if (held_out) print "" >>valid; else print ""; next }
            { if (held_out) print >>valid; else print }
        ' | gzip >"$2/$shard.gz" || return 1
        rm "$1/$file"
        count=$((count + 1))
    done <"$work/files"
    [ "$count" -gt 0 ] || { say "$archive: found no englishText_* in it"; return 1; }
    if [ -f "$2/valid.txt" ]; then gzip "$2/valid.txt"; fi
}

# train-novels/GENRE/NOVEL.txt, in a tar of its own.  A novel is a document; every hundredth is held out.
layout_lambada() {
    inner=$(find "$1" -type f -name train-novels.tar)
    if [ -n "$inner" ]; then tar -xf "$inner" -C "$1" --no-same-owner && rm "$inner" || return 1; fi
    find "$1" -type f -path '*/train-novels/*/*.txt' | sort >"$work/files"
    [ -s "$work/files" ] || { say "$archive: found no train-novels in it"; return 1; }
    count=0
    while read -r file; do
        genre=$(basename "$(dirname "$file")" | tr -c 'A-Za-z0-9\n' _)
        count=$((count + 1))
        shard=books-$genre.txt
        if [ $((count % 100)) -eq 0 ]; then shard=valid.txt; fi
        { sed '/^[[:space:]]*$/d' "$file" && echo; } >>"$2/$shard" || return 1
    done <"$work/files"
    gzip "$2"/*.txt
}

lay_out() {
    case $layout in
    folder) layout_folder "$1" "$2" ;;
    rows) layout_rows "$1" "$2" ;;
    wikitext) layout_wikitext "$1" "$2" ;;
    wikicorpus) layout_wikicorpus "$1" "$2" ;;
    lambada) layout_lambada "$1" "$2" ;;
    esac
}

# ---- one data set

contents_of() { (cd "$1" && find . -type f ! -path ./.fetched | sort | xargs sha256sum | sha256sum | cut -d ' ' -f 1); }
stamp_of() { sed -n "s/^$2 //p" "$1/.fetched"; } # FOLDER KEY

fetch() {
    place=$dir/$folder
    if [ -f "$place/.fetched" ]; then
        if [ "$sha256" = - ] || [ "$(stamp_of "$place" archive)" = "$sha256" ]; then
            say "$name: $place is there"
            return 0
        fi
        say "$place was made from another archive than $table now names: move it away to fetch it again"
        return 1
    fi
    if [ -d "$place" ] && [ -n "$(ls -A "$place")" ]; then
        say "$place is there and was not made by this script: move it away, or choose another --dir"
        return 1
    fi
    need_tools && fetch_archive || return 1
    say "$name: unpacking $archive to $place"
    work=$(mktemp -d "$dir/.fetch.XXXXXX") && mkdir "$work/from" "$work/to" || return 1
    if ! unpack "$dir/archives/$archive" "$work/from" || ! lay_out "$work/from" "$work/to"; then
        say "$name: $dir/archives/$archive could not be unpacked; it stays there"
        return 1
    fi
    # only now: an error page of some proxy is no first copy
    hash=$(sha256_of "$dir/archives/$archive")
    record_sha256 "$hash" "archives/$archive"
    : >>"$work/notes"
    if ! { printf 'archive %s\ncontents %s\n' "$hash" "$(contents_of "$work/to")" && cat "$work/notes"; } >"$work/to/.fetched"; then
        say "$name: cannot write .fetched"
        return 1
    fi
    chmod -R u+rwX,go+rX "$work/to" && mkdir -p "$(dirname "$place")" || return 1
    if [ -d "$place" ]; then rmdir "$place" || return 1; fi
    mv "$work/to" "$place" && say "$name: done"
}

check() {
    place=$dir/$folder file=$dir/archives/$archive
    if [ ! -f "$place/.fetched" ]; then
        echo "$name: not there"
        return 1
    fi
    if [ "$(contents_of "$place")" != "$(stamp_of "$place" contents)" ]; then
        echo "$name: $place is not what was unpacked: files were changed, added or removed"
        return 1
    fi
    if [ -f "$file" ] && [ "$(sha256_of "$file")" != "$(stamp_of "$place" archive)" ]; then
        echo "$name: $place is intact, but $file is not what it was made from"
        return 1
    fi
    echo "$name: intact"
}

# ---- command line

dir=data table=$here/fetch_data.txt base_url=${LINFORMER_DATA_URL-} action=fetch wanted_names=
while [ $# -gt 0 ]; do
    case $1 in
    --dir | --base-url | --table)
        [ $# -gt 1 ] || { say "$1 needs a value"; exit 2; }
        case $1 in --dir) dir=$2 ;; --base-url) base_url=$2 ;; --table) table=$2 ;; esac
        shift
        ;;
    --list) action=list ;;
    --check) action=check ;;
    -h | --help) usage && exit 0 ;;
    -*) say "no option $1" && usage >&2 && exit 2 ;;
    *) wanted_names="$wanted_names $1" ;;
    esac
    shift
done
[ -r "$table" ] || { say "$table: no such list of sources"; exit 2; }
if [ $action = list ]; then
    list
    exit 0
fi

chosen=
for one in $wanted_names; do
    case $one in
    all) chosen="$chosen $(names)" ;;
    glue | GLUE) chosen="$chosen SST-2 QNLI QQP" ;;
    *) chosen="$chosen $one" ;;
    esac
done
if [ -z "$chosen" ] && [ $action = check ]; then # those that are there
    for one in $(names); do
        look_up "$one" && [ ! -f "$dir/$folder/.fetched" ] || chosen="$chosen $one"
    done
    [ -n "$chosen" ] || { echo "nothing was fetched into $dir"; exit 0; }
fi
[ -n "$chosen" ] || { usage >&2; exit 2; }
for one in $chosen; do
    look_up "$one" || { say "no data set $one; there are $(names | tr '\n' ' ')glue all"; exit 2; }
done
need sha256sum coreutils || exit 1

work=
trap 'rm -rf ${work:+"$work"}' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
failed=0
mkdir -p "$dir" || exit 1
for one in $chosen; do
    look_up "$one"
    if [ $action = check ]; then check; else fetch; fi || failed=1
    rm -rf ${work:+"$work"}
    work=
done
exit $failed
