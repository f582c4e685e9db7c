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

# make_counter: a library that counts what the program asks memory for; fails where there can be none
make_counter() {
    if ldd "$linformer" | grep -q libasan; then return 1; fi # it has an allocator of its own
    cat >count.c <<'END'
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
static atomic_long calls;
void *malloc(size_t size) { return calls++, __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return calls++, __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return calls++, __libc_realloc(old, size); }
void *aligned_alloc(size_t align, size_t size) { return calls++, __libc_memalign(align, size); }
int posix_memalign(void **out, size_t align, size_t size) { return calls++, (*out = __libc_memalign(align, size)) ? 0 : 12; }
__attribute__((destructor)) static void tell(void) { fprintf(stderr, "allocations: %ld\n", (long)calls); }
END
    cc -shared -fPIC -Wl,-z,defs count.c -o count.so 2>/dev/null
}

# allocations STEPS FLAGS: trains so long and prints how often memory was asked for
allocations() {
    # shellcheck disable=SC2086
    LD_PRELOAD=$PWD/count.so run pretrain "$root/tests/cli/small.yaml" data.train=text.txt data.valid=[] tokenizer.vocab_size=290 \
        train.steps=$1 train.log_every=1000 $2 run=runs/$1 data.tokens=tokens tokenizer.model=spm.model
    sed -n 's/^allocations: //p' err
}

begin steps_allocate_nothing && {
    for i in $(seq 400); do echo "the man $((i % 97)) saw a dog at $((i % 13)) of the clock"; done >text.txt
    if make_counter; then
        for flags in train.recompute=none 'train.recompute=layer train.short_rate=0.5 train.micro_batch=4'; do
            for steps in 4 20 80; do # the first one trains a tokenizer too
                allocations $steps "$flags" >count.$steps
            done
            rm -r runs
            expect "allocations: $(cat count.20) in 20 steps, $(cat count.80) in 80" [ "$(cat count.20)" = "$(cat count.80)" ]
            expect "allocations are not counted: $(cat err)" [ "$(cat count.20)" -gt 100 ]
        done
    else
        skip "no library can count allocations here"
    fi
}
