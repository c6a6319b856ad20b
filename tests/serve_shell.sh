# Sourced by tests of the server in shell, with the build folder as $1: a folder of their own, one server at a time, and
# their end.
kentang=$1/kentang
dir=$(mktemp -d)
log=$dir/log
server=""
launcher="" # words before the program: mpirun -n 2
cleanup() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
fail() {
    echo "failed: $1" >&2
    cat "$log" >&2 2>/dev/null || true
    exit 1
}

# launch SERVE-ARGUMENTS...: until it is ready
launch() {
    : >"$log"
    $launcher "$kentang" serve "$@" 2>"$log" &
    server=$!
    for _ in $(seq 600); do
        grep -q 'ready.*http' "$log" && return 0
        kill -0 "$server" 2>/dev/null || fail "the server ended"
        sleep 0.05
    done
    fail "the server is not ready"
}

# launch without anybody's configuration
start() {
    launch --no-config --no-env "$@"
}

# SIGTERM, and a good end
finish() {
    kill -TERM "$server"
    wait "$server" || fail "the exit code after SIGTERM"
    server=""
}

# where it listens: http://ADDRESS:PORT
url_of() {
    sed -n 's/.* ready .*http=\(https\{0,1\}:[^ ]*\) .*/\1/p' "$log"
}
