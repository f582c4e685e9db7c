#!/bin/sh
# Installs what the build needs and is missing: on Debian and Ubuntu with apt-get (sudo only where we are not root),
# elsewhere names it and fails.  Silent when nothing is missing.
set -eu

# pkg-config name, Debian package and Makefile variable of every library; one whose <variable>_LIBS is given is not looked for
libraries='openblas libopenblas-openmp-dev BLAS
yaml-0.1 libyaml-dev YAML
libcjson libcjson-dev CJSON
sentencepiece libsentencepiece-dev SPM
zlib zlib1g-dev ZLIB
libzstd libzstd-dev ZSTD
libxxhash libxxhash-dev XXHASH'

CC=${CC:-cc} CXX=${CXX:-g++} PKG_CONFIG=${PKG_CONFIG:-pkg-config}

have() { command -v "${1%% *}" >/dev/null 2>&1; } # a command, as "ccache gcc" is

missing_packages() {
    have "$CC" || echo gcc
    have "$CXX" || echo g++
    echo "$libraries" | while read -r name package variable; do
        eval "given=\${${variable}_LIBS:-}"
        [ -z "$given" ] || continue
        have "$PKG_CONFIG" || echo pkg-config
        # shellcheck disable=SC2086 # with arguments, perhaps
        $PKG_CONFIG --exists "$name" 2>/dev/null || echo "$package"
    done
    # the compiler may be there without the C library's headers
    # shellcheck disable=SC2086
    if have "$CC" && ! echo '#include <stdlib.h>' | $CC -E - >/dev/null 2>&1; then echo libc6-dev; fi
}

missing=$(missing_packages | sort -u | tr '\n' ' ')
[ -n "$missing" ] || exit 0

if ! have apt-get; then
    echo "missing: $missing" >&2
    echo "(names of the Debian packages; install what your system calls them, with pkg-config files, and try again)" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo; then
        echo "missing: $missing" >&2
        echo "as root: apt-get install $missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "installing: $missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    # shellcheck disable=SC2086 # a list of package names
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >>"$log" 2>&1
}
# lists of packages may be absent or old
if ! install && ! { $as_root apt-get update -q >>"$log" 2>&1 && install; }; then
    cat "$log" >&2
    echo "could not install: $missing" >&2
    exit 1
fi

still=$(missing_packages | sort -u | tr '\n' ' ')
if [ -n "$still" ]; then
    echo "installed, but still not found: $still" >&2
    exit 1
fi
