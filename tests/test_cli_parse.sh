#!/bin/sh
# kentang parse: what models wrote, by a template's format and by a model's.
#   tests/test_cli_parse.sh RUN_DIR SOURCE_DIR
set -eu
kentang=$1/kentang
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() { # name, what is expected, file with what came
    printf '%s\n' "$2" | cmp -s - "$3" || { echo "$1: expected"; printf '%s\n' "$2"; echo "and got"; cat "$3"; exit 1; }
}

cat >"$work/tags.jinja" <<'END'
{%- if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}
{%- for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>
{% else %}<think></think>{% endif %}{% endif %}
END
tools='"tools": [{"type": "function", "function": {"name": "now", "parameters": {}}}]'
printf '%s\n' '{"text": "Halo"}' \
    "{\"text\": \"Hm.</think>\\n\\nSo:\\n<tool_call>\\n{\\\"name\\\": \\\"now\\\", \\\"arguments\\\": {\\\"a\\\": 1}}\\n</tool_call>\", $tools, \"options\": {\"enable_thinking\": true, \"reasoning_format\": \"auto\", \"cut\": 20}}" \
    '{"text": "Hm.</think>Yes", "options": {"enable_thinking": true}}' >"$work/lines"
"$kentang" parse --template "$work/tags.jinja" <"$work/lines" >"$work/out" 2>"$work/err"
sed 's/"id":"call_[0-9a-f]*"/"id":ID/' "$work/out" >"$work/lines.out"
expect "by a template" '{"content":"Halo","reasoning_content":"","tool_calls":[]}
{"content":"So:","reasoning_content":"Hm.","tool_calls":[{"id":ID,"type":"function","name":"now","arguments":"{\"a\": 1}","function":{"name":"now","arguments":"{\"a\": 1}"}}]}
{"content":"<think>\nHm.</think>Yes","reasoning_content":"","tool_calls":[]}' "$work/lines.out"
expect "the format" "format: hermes, reasoning: think" "$work/err"

echo '{"text": "Halo <think>"}' | "$kentang" parse -m "$2/src/lib/context/demo.gguf" >"$work/out" 2>"$work/err"
expect "by a model" '{"content":"Halo <think>","reasoning_content":"","tool_calls":[]}' "$work/out"

for bad in '{' '{"text": 1}' '{"text": "a", "tools": [{"name": ""}]}' '{"text": "a", "tools": {}}'; do
    code=0
    echo "$bad" | "$kentang" parse --template "$work/tags.jinja" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" -eq 5 ] || { echo "$bad ended with $code"; cat "$work/err"; exit 1; }
done
grep -q 'line 1: ' "$work/err" || { cat "$work/err"; exit 1; }
