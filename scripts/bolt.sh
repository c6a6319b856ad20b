#!/bin/sh
# A kentang whose machine code LLVM's BOLT has laid out by what scripts/pgo_train.sh runs: built here with relocations,
# instrumented, trained, written anew. Some minutes; docs/TUNING.md says what it brings.
#   scripts/bolt.sh OUT        OUT: the program (build-bolt/kentang stays the one before)
. "$(dirname "$0")/setup.sh"
out=$(realpath -m "${1:?usage: scripts/bolt.sh OUT}")
cd "$KT_ROOT"

# shellcheck disable=SC2086
install_packages $KT_PACKAGES
bolt=$(command -v llvm-bolt || command -v llvm-bolt-16 || command -v llvm-bolt-15 || true)
[ -n "$bolt" ] || {
    install_packages bolt-15 libbolt-15-dev
    bolt=llvm-bolt-15
}
# shellcheck disable=SC2046
KT_TARGETS=kentang build build-bolt Release $(release_flags) -DKT_TESTS=OFF -DCMAKE_EXE_LINKER_FLAGS=-Wl,--emit-relocs
say "instrumenting and training"
bolt=$(realpath "$(command -v "$bolt")") # its library is found next to it
"$bolt" build-bolt/kentang -instrument -instrumentation-file=build-bolt/bolt.fdata -instrumentation-file-append-pid \
    -o build-bolt/kentang.instrumented >build-bolt/bolt.log 2>&1 || die "BOLT could not instrument (log: build-bolt/bolt.log)"
rm -f build-bolt/bolt.fdata*
sh scripts/pgo_train.sh build-bolt/kentang.instrumented
merge=$(command -v merge-fdata || command -v merge-fdata-16 || echo merge-fdata-15)
"$merge" build-bolt/bolt.fdata.* >build-bolt/merged.fdata 2>>build-bolt/bolt.log || die "no profile was written (log: build-bolt/bolt.log)"
say "writing $out"
"$bolt" build-bolt/kentang -data=build-bolt/merged.fdata -reorder-blocks=ext-tsp -reorder-functions=hfsort -split-functions \
    -split-all-cold -o "$out" >>build-bolt/bolt.log 2>&1 || die "BOLT could not write it (log: build-bolt/bolt.log)"
"$out" run -p Hi -n 4 --temp 0 -q
