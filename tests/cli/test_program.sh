# What the linked program is: one OpenMP, no warnings of the BLAS.

begin one_openmp_library && {
if command -v ldd >/dev/null; then
    count=$(ldd "$linformer" | grep -cE 'lib(gomp|omp|iomp5)\.so')
    expect "$count OpenMP libraries are loaded, wanted 1" [ "$count" -eq 1 ]
else
    skip "no ldd here"
fi
}

# What an installed library asks of a program that uses it: linformer.pc, nothing else.
begin installed_library && {
expect "make install fails: $(tail -n 3 install.log 2>/dev/null)" \
    make -C "$root" --no-print-directory install "PREFIX=$PWD/usr" >install.log 2>&1
cat >use.c <<'END'
#include <stdio.h>
#include <threads.h> /* the system's: ours of that name must not stand before it */
#include <linformer/threads.h>
#include <linformer/tokenizer.h>
int main(void) {
    Err err = {0};
    Tokenizer *tokenizer = NULL;
    if (!tokenizer_load(&tokenizer, "no.model", &err)) puts(err.msg);
    return threads_available() > 0 ? thrd_success : thrd_error;
}
END
flags=$(PKG_CONFIG_PATH=$PWD/usr/lib/pkgconfig pkg-config --cflags --libs linformer)
# shellcheck disable=SC2086 # a list of flags
expect "a program does not link with: $flags" cc use.c -o use $flags
expect "the program fails" ./use >out
expect_out "no.model"
expect_file usr/bin/linformer
}

# An OpenBLAS with threads of its own, as far as it can be told from here: each of ours would start as many again.
begin blas_pool_stays_unused && {
    cat >pool.c <<'END'
#include <stdio.h>
int openblas_get_parallel(void) { return 1; }
void openblas_set_num_threads(int count) { fprintf(stderr, "BLAS threads: %d\n", count); }
END
    cc -shared -fPIC pool.c -o pool.so || skip "no shared library can be made here"
    export LD_PRELOAD=$PWD/pool.so ASAN_OPTIONS=verify_asan_link_order=0
    run plan "$root/tests/cli/small.yaml" --gflops 100 train.threads=3
    unset LD_PRELOAD ASAN_OPTIONS
    expect_status 0
    expect_err "BLAS threads: 1"
    expect "several BLAS threads for each of ours" [ "$(grep -c 'BLAS threads: [^1]' err)" -eq 0 ]
}
