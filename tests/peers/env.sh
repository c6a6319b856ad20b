# Sourced, with the build folder as $1 and the test's own folder in $dir, by tests that start several processes: by root, too,
# with the launcher's files in $dir, since jobs that share a folder for them remove each other's, and without what sanitizers say
# of MPI's own libraries. Under AddressSanitizer, which loads libraries itself, ours is not looked for next to the program.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base="$dir"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" TSAN_OPTIONS="${TSAN_OPTIONS:-}:ignore_noninstrumented_modules=1"
KENTANG_MPI=$(cd "$1" && pwd)/libkentang-mpi.so
export KENTANG_MPI
# On this machine alone, by shared memory: looking for networks takes 0.3 s of each start.
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
