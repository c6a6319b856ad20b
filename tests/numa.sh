#!/bin/sh
# A machine with two NUMA nodes, which this one is not: emulated, with Debian's kernel. Workers' scratch lies on the
# nodes that they run on, what all use on both, and the answer is the same.
#   tests/numa.sh BUILD_DIR     (needs Debian's qemu-system-x86, busybox-static, cpio; the network for the first run)
set -eu
build=${1:?usage: tests/numa.sh BUILD_DIR}
tests=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
unset KENTANG_ISA

case $(uname -m) in x86_64 | amd64) ;; *) echo "skipped: the emulated machine is an x86-64"; exit 0 ;; esac
command -v qemu-system-x86_64 >/dev/null || { echo "numa.sh: no qemu-system-x86_64: apt-get install qemu-system-x86" >&2; exit 2; }

cat >"$work/script" <<'GUEST'
echo 0 >/proc/sys/kernel/numa_balancing # where a page lies at first, not where it is moved to later
kentang doctor --quick
for test in test_host_nodes test_ops_nodes; do
    echo "$test: begins"
    "$test" 2>&1
    echo "$test: status $?"
done
echo "text: $(kentang run -t 4 --temp 0 -n 8 -p 'Tell me a story.' 2>/dev/null | head -1)"
# maps NAME OPTIONS...: the mappings of kentang while it answers that have a policy
maps() {
    name=$1
    shift
    kentang run -t 4 --temp 0 -n 400 -p 'Tell me a story.' "$@" >answer 2>/dev/null &
    while kill -0 $! 2>/dev/null && [ ! -s answer ]; do sleep 0.1; done
    sed "s/^/$name: /; s/\$/ (end)/" /proc/$!/numa_maps | grep -E 'interleave|stack'
    kill $!
    wait
}
maps all
maps first -C 3
GUEST
kernel=$("$tests/guest_kernel.sh" "$build/guest")
"$tests/guest_initramfs.sh" "$work/initramfs" "$work/script" "$build/kentang" "$build/test_host_nodes" "$build/test_ops_nodes"

status=0
timeout 900 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 4 -m 2G -nographic -no-reboot -nic none \
    -object memory-backend-ram,id=m0,size=1G -object memory-backend-ram,id=m1,size=1G \
    -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 \
    -kernel "$kernel" -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" \
    </dev/null >"$work/raw" 2>&1 || status=$?
tr -d '\r' <"$work/raw" >"$build/numa.log"
grep -q '^guest: exit' "$build/numa.log" || {
    tail -5 "$build/numa.log" >&2
    echo "numa.sh: the emulated machine did not come to its end, status $status (log: $build/numa.log)" >&2
    exit 1
}

# check NAME COMMAND...: says PASS or FAIL
check() {
    name=$1
    shift
    if "$@"; then
        echo "PASS $name"
    else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}
says() { grep -qE -- "$1" "$build/numa.log"; }
says_not() { ! says "$1"; }
# passed TEST: it ran to its end, and left nothing out
passed() {
    sed -n "/^$1: begins/,/^$1: status/p" "$build/numa.log" >"$work/of"
    says "^$1: status 0" && return
    grep -E 'FAILED|ERROR|Failure|LINE|worker|pages on node' "$work/of" | tail -12 | sed 's/^/    /'
    return 1
}
here=$("$build/kentang" run -t 1 --temp 0 -n 8 -p 'Tell me a story.' 2>/dev/null | head -1)

check "doctor: 2 NUMA nodes" says '4 physical, 4 logical, 2 NUMA nodes'
check "no test is left out" says_not 'SKIPPED|had no work'
check "what is spread lies on both nodes, and on one where threads stay there" passed test_host_nodes
check "workers run on both nodes" says '^worker 1: processor [23], node 1'
check "each worker's scratch on its own node, K/V on both" passed test_ops_nodes
check "kentang run: K/V on both nodes" says '^all: .*interleave:0-1'
check "kentang run -C 3: left where it is touched" says_not '^first: .*interleave'
check "kentang run -C 3: was looked at" says '^first: .*stack'
check "the same text" grep -qxF "text: $here" "$build/numa.log"
[ $failed -eq 0 ] && echo "numa: all passed" || echo "numa: $failed failed (log: $build/numa.log)"
[ $failed -eq 0 ]
