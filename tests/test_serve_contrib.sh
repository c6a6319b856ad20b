#!/bin/sh
# Every metric that the dashboard and the alerts ask for is one that the server has; contrib's files are well-formed.
set -eu
. "$(dirname "$0")/serve_shell.sh"
contrib=$(cd "$(dirname "$0")/../contrib" && pwd)
command -v curl >/dev/null 2>&1 || { echo "no curl: not tested"; exit 0; }
start --listen "unix:$dir/http.sock" --socket none
curl -sf --unix-socket "$dir/http.sock" http://localhost/metrics >"$dir/metrics" || fail "/metrics"
sed -n 's/^# TYPE \(kentang_[a-z_]*\) .*/\1/p' "$dir/metrics" | sort -u >"$dir/there"
echo kentang_cpu_throttled_seconds_total >>"$dir/there" # only where the cgroup has a quota
echo kentang_memory_stalled_seconds_total >>"$dir/there" # only where the kernel counts pressure
# reads of mapped weights from disk are few large faults: bytes show them
grep -A2 KentangSwapping "$contrib/prometheus/kentang.rules.yml" | grep -q 'kentang_disk_read_bytes_total' || fail "the alert on swapping asks for no bytes"
cat "$contrib"/grafana/*.json "$contrib"/prometheus/*.yml | grep -o 'kentang_[a-z_]*' | grep -v '^kentang_rules' |
    sed 's/_bucket$//; s/_sum$//; s/_count$//' | sort -u >"$dir/asked"
[ "$(wc -l <"$dir/asked")" -gt 20 ] || fail "the names in contrib were not found"
while read -r name; do
    grep -qx "$name" "$dir/there" || fail "contrib asks for $name, which /metrics has not"
done <"$dir/asked"
grep -q '^kentang_memory_planned_bytes{model="demo",kind="kv"} [1-9]' "$dir/metrics" || fail "the memory plan is not in /metrics"
if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$contrib/grafana/kentang.json" || fail "the dashboard is no JSON"
fi
if command -v promtool >/dev/null 2>&1; then
    promtool check rules "$contrib/prometheus/kentang.rules.yml" >"$dir/out" 2>&1 || { cat "$dir/out"; fail "promtool check rules"; }
    promtool check metrics <"$dir/metrics" || fail "promtool check metrics"
fi
if command -v systemd-analyze >/dev/null 2>&1; then
    # the unit names /usr/local/bin/kentang, which need not be installed here
    mkdir "$dir/units"
    sed "s|/usr/local/bin/kentang|$kentang|" "$contrib/systemd/kentang.service" >"$dir/units/kentang.service"
    cp "$contrib/systemd/kentang.socket" "$dir/units/"
    systemd-analyze verify "$dir/units/kentang.service" "$dir/units/kentang.socket" >"$dir/out" 2>&1 || true
    if grep -E 'kentang\.(service|socket)' "$dir/out" | grep -v 'Command .*man '; then fail "systemd-analyze verify"; fi
fi
finish
