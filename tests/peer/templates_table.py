#!/usr/bin/env python3
"""Writes tests/jinja_cases.inc: templates with what python3-jinja2 makes of them.

Usage: templates_table.py > ../jinja_cases.inc   (rewrites the expected column; the list is here)
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.argv = sys.argv[:1]
from templates_env import MUTABLE, expected  # noqa: E402

VARIABLES = {
    "s": "Hello, World", "t": "  spaced \n", "u": "ñandú É日本語 ß ΑΣ", "h": "<b>\"x\" & 'y'</b>", "e": "",
    "m": "one\ntwo\r\nthree\n", "i": 7, "f": 2.5, "yes": True, "no": False, "nil": None, "l": [3, 1, 2],
    "ls": ["b", "A", "c", "a"], "o": {"b": 1, "A": "x", "c": [1, 2]}, "deep": {"x": {"y": [{"z": "found"}]}},
    "users": [{"name": "Budi", "age": 30, "on": True}, {"name": "ani", "age": 25, "on": False},
              {"name": "Citra", "age": 30}], "mixed": [1, "x", None, 2.0, [1], {"k": 1}],
}

CASES = r"""
# literal text and white space
plain text
a\n
a\n\n
\n
{% if yes %}\nx\n{% endif %}\ny
  {% if yes %}\n  x\n  {% endif %}\ny
a {% if yes %} x {% endif %} b
a {%- if yes -%} x {%- endif -%} b
a\n  {%+ if yes %}x{% endif %}
a\n  {%- if yes +%}\nx{%- endif %}\n b
{{ 1 }}\n{{ 2 }}
{{- 1 -}}  \n  x
  {{ 1 }}  \n
 \n {{- s -}} \n x
a{# comment #}b
  {# comment #}\nb
a {#- comment -#} b
a\n  {#+ c +#}\nb
{# a\nb #}\nc
{% raw %}{{ x }}{% y %}{% endraw %}
a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb
{%- raw -%}  a  {%- endraw -%}  b
{{ '{{' }}{{ '%}' }}{{ "#}" }}
{ { } } %} }} #}
a\r\nb\rc\n
é{{ u }}
{%set x=1%}{{x}}
{% set x = 1 -%}\n\n  y{{ x }}
{{ {'a': {'b': 1}}['a']['b'] }}
{{ [1, [2, 3], (4, 5),] }}
# literals
{{ 1 }} {{ -1 }} {{ 1_000 }} {{ 1.5 }} {{ 1e3 }} {{ 1.0e-7 }} {{ 2.5E+3 }} {{ 1_0.5 }}
{{ 'a' "b" 'c' }}
{{ 'a\\nb\\tc\\\\d\\'e\\"f\\x41\\u00e9\\U0001F600\\q\\101' }}
{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}
{{ () }} {{ (1,) }} {{ (1, 2) }} {{ 1, 2 }} {{ [] }} {{ {} }}
{{ {1: 'a', 'b': none, true: 2, 1.5: [1]} }}
{{ 'it\\'s' }} {{ ["it's", 'q"q', 'both\\'"', 'n\\n\\x00\\u200b\\xa0'] }}
# numbers
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 // -2 }}
{{ 7 / 2 }} {{ 6 / 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }} {{ 1e-5 }} {{ 0.0001 }}
{{ 1e400 }} {{ -1e400 }} {{ -0.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 100000000000000000000.0 }}
{{ true + true }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 0 == false }} {{ '1' == 1 }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ -'a' }}
{{ nil + 1 }}
# comparison and logic
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 2 >= 2.0 }} {{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'é' > 'z' }}
{{ [1, 2] < [1, 3] }} {{ (1, 2) <= (1, 2) }} {{ [1] == (1,) }} {{ [1, [2]] == [1, [2]] }} {{ {'a': 1} == {'a': 1.0} }}
{{ 1 < 'a' }}
{{ nil < 1 }}
{{ 1 in l }} {{ 'ell' in s }} {{ 'b' in o }} {{ 9 not in l }} {{ 'x' in undefined_name }} {{ '' in '' }}
{{ 1 in s }}
{{ 1 in 5 }}
{{ yes and 'x' }} {{ no and 'x' }} {{ '' or 'y' }} {{ 0 or none or [] }} {{ not '' }} {{ not not 5 }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }}| {{ 1 if no else 2 if no else 3 }}
{{ 1 and 2 or 3 }} {{ not yes == no }} {{ 'x' ~ 1 + 2 ~ 'y' }} {{ 'a' ~ none ~ [1] ~ 1.0 ~ true ~ undefined_name }}
# strings
{{ s[0] }}{{ s[-1] }}{{ s[100] }}|{{ u[1] }}{{ u[6] }}{{ s[1:4] }}{{ s[:-7] }}{{ s[::-1] }}{{ u[6:9] }}{{ u[::-2] }}{{ s[10:2] }}|{{ s[-3:] }}
{{ 'ab' * 3 }}{{ 2 * 'x' }}{{ 'x' * -1 }}|{{ s.upper() }}{{ s.lower() }}{{ u.upper() }}{{ u.lower() }}
{{ 'hello world'.title() }} {{ 'hello WORLD'.capitalize() }} {{ "it's a-b"|title }} {{ 'x y'|capitalize }}
[{{ t.strip() }}][{{ t.lstrip() }}][{{ t.rstrip() }}][{{ 'xxaxx'.strip('x') }}][{{ 'abcba'.lstrip('ab') }}][{{ t|trim }}][{{ '--a--'|trim('-') }}]
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ ' a b '.split(none, 1) }} {{ 'a'.split('x') }}
{{ s.split('') }}
{{ m.splitlines() }} {{ m.splitlines(true) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'|replace('b', 5) }} {{ 5|replace(5, 6) }}
{{ s.startswith('Hell') }} {{ s.endswith(('x', 'd')) }} {{ s.startswith('l', 2) }} {{ s.find('o') }} {{ s.find('z') }} {{ s.rfind('o') }} {{ s.count('l') }} {{ u.find('日') }}
{{ ','.join(ls) }} {{ ls|join }} {{ l|join('-') }} {{ users|join(', ', attribute='name') }} {{ ''.join([]) }}
{{ ','.join(l) }}
{{ 'x'.removeprefix('x') }}{{ 'abc'.removesuffix('bc') }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'a1'.isalpha() }} {{ ' '.isspace() }} {{ ''.isdigit() }}
{{ '{} {}'.format('a', 1) }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} {{ '{{}}'.format() }} {{ '{}|{}|{}'.format(1.5, nil, l) }}
{{ '{} {}'.format('a') }}
{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb\\n'|indent(2, true) }}|{{ 'a\\n\\nb'|indent('> ', blank=true) }}|
{{ h|safe }} {{ 5|safe|length }} {{ '<i>'|safe + h }} {{ ('<i>'|safe) ~ h }} {{ 5|string + 'a' }}
{{ '%s-%s%%'|format('a', 5) }} {{ '%s'|format([1, 'x']) }} {{ '%s%s'|format(none, s) }} {{ 'x%%'|format }}
{{ '%s'|format }}
{{ 'x'|format(1) }}
{{ s|upper|lower|title|replace('W', 'w')|reverse }} {{ s|length }} {{ u|length }} {{ u|count }}
# lists and dictionaries
{{ l[0] }} {{ l[-1] }} {{ l[9] }}| {{ l['x'] }}| {{ l[1:] }} {{ l[::-1] }} {{ l + [4] }} {{ l * 2 }} {{ (1, 2) + (3,) }}
{{ l + (1,) }}
{{ nil[0:1] }}
{{ l.foo }}| {{ o.b }} {{ o['A'] }} {{ o.zzz }}| {{ o[1] }}| {{ deep.x.y[0].z }} {{ deep['x']['y'][-1]['z'] }} {{ users.0.name }} {{ nil.x }}| {{ i.x }}|
{{ undefined_name.x }}
{{ o.zzz.x }}
{{ undefined_name }}| {{ undefined_name is defined }} {{ undefined_name or 'd' }} {{ undefined_name|default('d') }} {{ ''|default('d') }} {{ ''|default('d', true) }} {{ nil|default('d') }}
{{ undefined_name + 1 }}
{{ undefined_name() }}
{{ undefined_name|length }} {{ undefined_name|list }} {{ undefined_name|join }}| {{ undefined_name == undefined_name }} {{ undefined_name|first }}|
{{ o.get('b') }} {{ o.get('q') }} {{ o.get('q', 5) }} {{ o.keys()|list }} {{ o.values()|list }} {{ o.items()|list }} {{ o|items|list }} {{ o|list }} {{ o|length }} {{ o.items() }}
{{ o|dictsort }} {{ o|dictsort(true) }} {{ {'a': 2, 'b': 1}|dictsort(by='value') }} {{ {'a': 2, 'b': 1}|dictsort(reverse=true) }}
{{ l|sort }} {{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ users|sort(attribute='age')|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|join(',') }}
{{ mixed|sort }}
{{ l|min }} {{ l|max }} {{ ls|min }} {{ []|max }}| {{ l|sum }} {{ users|sum(attribute='age') }} {{ l|first }} {{ l|last }} {{ s|first }} {{ []|first }}| {{ l|reverse|list }} {{ s|reverse }}
{{ users|map(attribute='name')|list }} {{ users|map(attribute='on', default='?')|list }} {{ ls|map('upper')|join }} {{ ls|map('replace', 'a', 'z')|list }} {{ [[1, 2], [3]]|map('length')|list }}
{{ mixed|select('string')|list }} {{ mixed|reject('none')|list }} {{ [0, 1, '', 'a']|select|list }} {{ range(6)|select('odd')|list }} {{ range(6)|reject('gt', 2)|list }}
{{ users|selectattr('on')|map(attribute='name')|list }} {{ users|selectattr('age', 'equalto', 30)|list|length }} {{ users|rejectattr('on', 'defined')|map(attribute='name')|list }} {{ users|selectattr('name', 'in', ['ani'])|first }}
{{ ['a', 'A', 'b', 'a']|unique|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ ls|unique|join }}
{{ l|map('nope')|list }}
{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(2) }} {{ range(3)[1] }} {{ range(0)|length }} {{ 2 in range(3) }}
{{ range(200000) }}
{{ dict(a=1, b='x') }} {{ dict(o, z=1)|length }} {{ dict([('k', 1)]) }}
{% set q = [] %}{% set _ = q.append(1) %}{% set _ = q.append(2) %}{{ q }}{{ q.pop() }}{{ q.pop(0) }}{{ q }}{% set d = {} %}{% set _ = d.update({'a': 1}) %}{{ d }}
{{ [].pop() }}
{{ {[]: 1} }}
# numbers by filter
{{ '42'|int }} {{ ' 42 '|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(-1) }} {{ 4.7|int }} {{ -4.7|int }} {{ true|int }} {{ nil|int }}
{{ '4.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ 'x'|float(1.5) }} {{ -3|abs }} {{ 2.5|abs }} {{ -0.0|abs }}
# JSON
{{ mixed|tojson }} {{ o|tojson }} {{ u|tojson }} {{ u|tojson(ensure_ascii=true) }} {{ h|tojson }} {{ 'a\\n\\t\\x01\\x7f\\\\"/'|tojson }} {{ []|tojson }} {{ {}|tojson }}
{{ {'a': [1, {'b': none}], 'c': []}|tojson(indent=2) }}
{{ {'b': 1, 'a': [2]}|tojson(sort_keys=true, separators=(',', ':')) }} {{ [1.0, 1e20, 1e-9, true, 2.50]|tojson }} {{ {1: 2, none: 3, true: 4}|tojson }} {{ (1, 2)|tojson }}
{{ '😀é'|tojson(ensure_ascii=true) }} {{ l|tojson(indent=0) }}
{{ undefined_name|tojson }}
{{ range(3)|tojson }}
{{ '{"a": [1, 2.50, "x\\\\u00e9"], "b": null}'|from_json }} {{ ('[1]'|from_json)[0] }}
{{ '{'|from_json }}
# tests
{{ 1 is defined }} {{ x is undefined }} {{ 'a' is string }} {{ 1 is number }} {{ 1.0 is float }} {{ 1 is integer }} {{ true is integer }} {{ true is boolean }} {{ none is none }} {{ o is mapping }} {{ l is sequence }} {{ s is iterable }} {{ 1 is iterable }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 1 is lt 2 }} {{ 3 is ge(3) }} {{ 1 is in l }} {{ 1 is not in [2] }} {{ 1 is sameas true }} {{ true is true }} {{ 0 is false }} {{ range is callable }}
{{ 1 is not defined }} {{ not x is defined }} {{ x is not defined and yes }}
{{ 1 is nope }}
{{ 'a' is odd }}
# set, scopes
{% set a = 1 %}{% set b, c = 2, 3 %}{{ a }}{{ b }}{{ c }}{% set d = 1, 2 %}{{ d }}{% set (e1, f1) = [4, 5] %}{{ e1 }}{{ f1 }}
{% set a, b = [1] %}
{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}{% for k in l %}{% set x = k %}{{ x }}{% endfor %}{{ x }}
{% set x %}a{{ 1 }}{% endset %}[{{ x }}]{% set y | upper | trim %} b {% endset %}[{{ y }}]
{% set ns = namespace(n=0) %}{% for k in l %}{% set ns.n = ns.n + k %}{% endfor %}{{ ns.n }}{{ ns.q }}|{% set ns.q = 'x' %}{{ ns.q }}{{ ns['n'] }}
{% set d = {} %}{% set d.x = 1 %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z }}|
{% filter upper %}a{{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}xa{% endfilter %}
{% generation %}a{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}|
# if
{% if no %}a{% elif nil %}b{% elif yes %}c{% else %}d{% endif %}{% if no %}a{% else %}b{% endif %}{% if no %}a{% endif %}
{% if l and o and s %}y{% endif %}{% if not (no or nil) %}z{% endif %}{% if x is defined and x %}a{% endif %}
# for
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for x in l %}{{ loop.previtem }}|{{ x }}|{{ loop.nextitem }};{% endfor %}
{% for k, v in o.items() %}{{ k }}={{ v }};{% endfor %}{% for k in o %}{{ k }}{% endfor %}{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %}{% for x in l if x > 5 %}a{% else %}none{% endfor %}{% for x in undefined_name %}a{% else %}u{% endfor %}
{% for x in l if x != 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}{% for c in 'añ' %}[{{ c }}]{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% for y in [1, 2] %}{{ loop.index }}{{ x }}{% endfor %}{{ loop.index }};{% endfor %}{{ x }}|
{% for x in 5 %}{% endfor %}
{% for x in nil %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{% if x == 1 %}{% set ns.go = false %}{% endif %}{% endfor %}
{% for x in l|map('string') %}{{ x }}{{ loop.last }}{% endfor %}{% set g = l|map('string') %}{{ g|list }}{{ g|list }}
# macros
{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}{{ m(1)|upper }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{% set x = 1 %}{% macro g() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ g() }}
{% macro m(a, b='x', c='y') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(*l) }}{{ m(*[1, 2]) }}{{ m(1, *ls[:2]) }}{{ m(*'ab') }}{{ m(*o) }}{{ m(*[]) }}{{ m(*[1], c=2) }}{{ m(c=2, *[1, 3]) }}
{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(*l) }}
{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(*i) }}
{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(*undefined_name) }}
{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1], 2) }}
{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1], *[2]) }}
{{ range(*[1, 7, 2])|list }} {{ s.replace(*['l', 'L']) }} {{ ls|join(*['-']) }} {{ 'x'.join(*[ls|map('upper')]) }}
{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}|{% for x in l %}{% macro k() %}{{ x }}{% endmacro %}{{ k() }}{% endfor %}
# errors in the source
{% if yes %}a
{{ 1 +
{{ }}
{% nope %}
{{ 'a
{# a
{% raw %}a
{% endif %}
{{ a b }}
{{ 1 | }}
{% set true = 1 %}
{% set 1 = 1 %}
{% for in l %}{% endfor %}
{{ (1 }}
{{ [1) }}
{{ 1 ? 2 }}
{{ raise_exception('no: ' ~ i) }}
{{ s|nope }}
{{ s.nope() }}
{{ 5() }}
"""

# Templates in the style of the common families; {M} stands for the messages below.
FAMILIES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "header": "{{- bos_token }}\n{%- if messages[0].role == 'system' %}\n    {%- set sys = messages[0].content | trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set sys = '' %}\n{%- endif %}\n{{- '<|head|>system<|/head|>\\n\\n' }}\n{%- if strftime_now is defined %}{{- 'Today: ' + strftime_now('%d %b %Y') + '\\n\\n' }}{%- endif %}\n{{- sys + '<|end|>' }}\n{%- for message in messages %}\n    {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim + '<|end|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|head|>assistant<|/head|>\\n\\n' }}\n{%- endif %}\n",
    "inst": "{%- set ns = namespace(sys='') -%}\n{{- bos_token -}}\n{%- for m in messages -%}\n  {%- if m.role == 'system' -%}{%- set ns.sys = m.content ~ '\\n\\n' -%}\n  {%- elif m.role == 'user' -%}[INST] {{ ns.sys ~ m.content }} [/INST]{%- set ns.sys = '' -%}\n  {%- elif m.role == 'assistant' -%}{{ ' ' ~ m.content ~ eos_token }}\n  {%- else -%}{{ raise_exception('unknown role ' ~ m.role) }}\n  {%- endif -%}\n{%- endfor -%}\n",
    "turns": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) and false %}{{ raise_exception('order') }}{% endif %}{% set role = 'model' if message.role == 'assistant' else message.role %}{{ '<turn>' + role + '\\n' + message['content'] | trim + '</turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<turn>model\\n' }}{% endif %}",
    "think": "{%- macro content(m) -%}{%- if m.content is string -%}{{- m.content -}}{%- else -%}{%- for part in m.content -%}{{- part.text if part.type == 'text' else '' -}}{%- endfor -%}{%- endif -%}{%- endmacro -%}\n{%- set ns = namespace(last=messages|length - 1) -%}\n{%- for m in messages[::-1] -%}{%- if m.role == 'user' -%}{%- set ns.last = messages|length - loop.index -%}{%- break -%}{%- endif -%}{%- endfor -%}\n{%- for m in messages -%}\n{%- set text = content(m) -%}\n{%- if m.role == 'assistant' and '</think>' in text and loop.index0 < ns.last -%}{%- set text = text.split('</think>')[-1].lstrip('\\n') -%}{%- endif -%}\n<{{ m.role }}>{{ text }}</{{ m.role }}>\n{%- endfor -%}\n",
    "tools": "{%- for tool in tools or [] %}\n{{- loop.index ~ '. ' ~ tool.function.name ~ ': ' ~ tool.function.description }}\n{%- for name, p in tool.function.parameters.properties|dictsort %}\n{{- '\\n  - ' + name + ' (' + p.type + ('' if name in tool.function.parameters.required else ', optional') + ')' }}\n{%- endfor %}\n{{- '\\n' + tool|tojson + '\\n' + tool.function.parameters|tojson(indent=2) }}\n{%- endfor %}\n",
}

MESSAGES = {
    "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Halo, <|im_end|> é"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHai! "}, {"role": "user", "content": [{"type": "text", "text": "a"}]}
                 ],
    "tools": [{"type": "function", "function": {"name": "get", "description": "Gets a \"thing\"", "parameters": {
        "type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}, "required": ["z"]}}}],
    "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
}
PLAIN = {**MESSAGES, "messages": MESSAGES["messages"][:3] + [{"role": "user", "content": "Dan?"}]}


def literal(text):
    out = ""
    for b in text.encode():
        c = chr(b)
        out += {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\", "?": "\\?"}.get(c) or (
            c if 32 <= b < 127 else f"\\{b:03o}")
    lines, line = [], ""
    while out:
        n = 70
        while out[max(n - 4, 0):n].find("\\") >= 0 and n < len(out):
            n += 1
        lines.append(f'"{out[:n]}"')
        out = out[n:]
    return "\n  ".join(lines) or '""'


def row(source, variables):
    kind, text = expected(MUTABLE, source, variables)
    print(f"X({literal(source)},\n  {literal(text) if kind == 'text' else 'NULL'})")


def main():
    print("/* Made by tests/peer/templates_table.py: X(template, what python3-jinja2 renders; NULL: it raises). */")
    print("#ifdef FAMILIES")
    for source in FAMILIES.values():
        row(source, MESSAGES if "part." in source else PLAIN)
    print("#else")
    for line in CASES.strip().split("\n"):
        if not line.startswith("# "):
            row(decode(line), VARIABLES)
    print("#endif")


def decode(line):
    return line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\0", "\\")


main()
