# What the linked program is: one OpenMP, no warnings of the BLAS.

begin one_openmp_library
if command -v ldd >/dev/null; then
    count=$(ldd "$linformer" | grep -cE 'lib(gomp|omp|iomp5)\.so')
    expect "$count OpenMP libraries are loaded, wanted 1" [ "$count" -eq 1 ]
else
    skip "no ldd here"
fi
