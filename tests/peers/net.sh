# Sourced after env.sh by root: machines of a network, as namespaces on a bridge whose ports carry 1 Gbit each way.
# net_up N, net_job N PROGRAM ARGUMENT..., net_down. Machine i has the address 10.77.0.(i + 1) and the processor i modulo those
# that there are.
unset OMPI_MCA_pml OMPI_MCA_btl # of one machine
net_can() { # whether this system lets us make namespaces and limit their ports
    command -v ip >/dev/null && command -v tc >/dev/null && [ "$(id -u)" = 0 ] || return 1
    ip netns add kt-try 2>/dev/null || return 1
    ip -n kt-try link add wire type veth peer name port 2>/dev/null &&
        tc -n kt-try qdisc add dev wire root tbf rate 1gbit burst 256k latency 50ms 2>/dev/null
    can=$?
    ip netns del kt-try
    return $can
}

net_down() {
    for i in 0 1 2 3 4 5 6 7; do ip netns del "kt-$i" 2>/dev/null || true; done
    ip netns del kt-switch 2>/dev/null || true
}

net_up() { # N
    net_down
    ip netns add kt-switch
    ip -n kt-switch link add switch type bridge
    ip -n kt-switch link set switch up
    i=0
    while [ $i -lt "$1" ]; do
        ip netns add "kt-$i"
        ip -n "kt-$i" link set lo up
        ip -n "kt-$i" link add wire type veth peer name "port$i" netns kt-switch
        ip -n kt-switch link set "port$i" master switch up
        ip -n "kt-$i" addr add "10.77.0.$((i + 1))/24" dev wire
        ip -n "kt-$i" link set wire up
        tc -n "kt-$i" qdisc add dev wire root tbf rate 1gbit burst 64k latency 50ms
        tc -n kt-switch qdisc add dev "port$i" root tbf rate 1gbit burst 64k latency 50ms
        i=$((i + 1))
    done
}

# What mpirun calls in the place of ssh: ADDRESS COMMAND...
net_agent() { # a file that becomes it
    cat >"$1" <<'AGENT'
#!/bin/sh
i=${1##*.}
i=$((i - 1))
shift
exec ip netns exec "kt-$i" unshare -u sh -c "hostname machine$i; $*"
AGENT
    chmod +x "$1"
}

net_job() { # N PROGRAM ARGUMENT...
    n=$1
    shift
    net_agent "$dir/agent"
    hosts=
    for i in $(seq "$n"); do hosts=$hosts,10.77.0.$i:1; done
    ip netns exec kt-0 unshare -u sh -c 'hostname machine0; exec "$@"' - \
        mpirun -n "$n" -H "${hosts#,}" --map-by node --bind-to none --mca plm_rsh_agent "$dir/agent" --mca btl tcp,self \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 -x KENTANG_MPI \
        sh -c 'exec taskset -c $((OMPI_COMM_WORLD_RANK % $0)) "$@"' "$(nproc)" "$@"
}
