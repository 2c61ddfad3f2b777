#!/usr/bin/env python3
"""Renders templates with transformers' own environment, for tests/jinja.

  chat_templates.py                          writes tests/reference/jinja/{snippets,products,chats}.json
  chat_templates.py --published DIR PROGRAM  compares PROGRAM (build/*/bin/jinja_render) with transformers over every
                                             *.jinja of DIR (trl installs 70 published ones) and generated conversations

pip install transformers jinja2. What stands here is our own: no published template is copied.
"""
import itertools
import json
import re
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from unittest import mock

from transformers.utils import chat_template_utils as utils

HERE = Path(__file__).parent
NOW = datetime(2026, 3, 9, 14, 5, 7)

VALUES = {
    "text": "Hello, Wörld! 你好 🙂",
    "lower": "some words of the day",
    "blank": "",
    "padded": "  \n padded \t",
    "lines": "one\ntwo\n\nthree",
    "number": 7,
    "minus": -7,
    "big": 12345678901,
    "half": 2.5,
    "tiny": 1e-7,
    "huge": 1e22,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "empty": [],
    "mixed": [1, 2.0, "three", None, True, [4], {"five": 5}],
    "dict": {"b": 1, "a": {"deep": [1, {"x": "y"}]}, "items": "shadow"},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 'quoted' & \"double\" <b>?"},
        {"role": "assistant", "content": " An answer.\n"},
        {"role": "user", "content": [{"type": "text", "text": "parts"}, {"type": "image"}]},
        {"role": "assistant", "content": "Done.", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
    ],
}

SNIPPETS = r"""
plain text
{{ text }}
{{ text }}|{{ missing }}|
{{- text -}} trimmed
a  {{- ' ' -}}  b
{% if yes %}yes{% endif %}
{% if no %}a{% elif number == 7 %}b{% else %}c{% endif %}
{% if nothing %}a{% else %}b{% endif %}{% if empty %}a{% endif %}{% if dict %}d{% endif %}{% if 0.0 %}z{% endif %}
{{ 'a' if yes else 'b' }}{{ 'a' if no else 'b' }}{{ 'a' if no }}
{{ 'x' if no else 'y' if no else 'z' }}
{{ number + 1 }} {{ number - 10 }} {{ number * 2 }} {{ number / 2 }} {{ number // 2 }} {{ number % 4 }} {{ number ** 2 }}
{{ minus // 2 }} {{ minus % 4 }} {{ minus / 2 }} {{ -number }} {{ +number }} {{ - -number }} {{ 2 ** -1 }} {{ -2 ** 2 }}
{{ half + 1 }} {{ half // 1 }} {{ half % 1 }} {{ -half // 1 }} {{ 7.0 }} {{ 1e3 }} {{ 1.5e-3 }} {{ tiny }} {{ huge }}
{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 100.0 / 3 }} {{ 1e16 }} {{ 1e15 }} {{ 123456.789 }} {{ 0.0001 }} {{ 0.00001 }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }}
{{ yes + yes }} {{ yes }} {{ no }} {{ nothing }} {{ not yes }} {{ not nothing }}
{{ True }} {{ False }} {{ None }} {{ true and none }} {{ 0 or 'x' }} {{ 'a' and 'b' }} {{ '' or [] }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ 1 == True }} {{ '1' == 1 }} {{ [1] == [1] }} {{ none == none }}
{{ 1 != 2 }} {{ 2 >= 2 }} {{ 2 <= 1 }} {{ [1, 2] < [1, 3] }} {{ 'é' > 'z' }}
{{ 'ell' in text }} {{ 'x' not in text }} {{ 3 in list }} {{ 'b' in dict }} {{ 'z' in dict }} {{ 1 in missing }}
{{ text ~ number ~ nothing ~ yes ~ list }}
{{ 'a' + 'b' }} {{ [1] + [2] }} {{ 'ab' * 3 }} {{ [0] * 3 }} {{ 2 * 'x' }} {{ 'x' * -1 }}|
{{ 'a' 'b' "c" }}
{{ list }} {{ words }} {{ mixed }} {{ dict }} {{ empty }} {{ {} }} {{ () }} {{ (1,) }} {{ (1, 2) }}
{{ 'it''s' }} {{ ["it's"] }} {{ ['say "x"'] }} {{ ['both \' and "'] }} {{ ['tab\tnew\nline\\'] }} {{ ['\x01é\u2028'] }}
{{ 'esc \n \t \\ \' \" \x41 \u00e9 \U0001F642 \101 \q' }}
{{ list[0] }} {{ list[-1] }} {{ list[5] }} {{ text[1] }} {{ text[-1] }} {{ text[7] }} {{ dict['b'] }} {{ dict['z'] }} {{ dict.b }} {{ dict.z }}
{{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ text[:5] }} {{ text[-2:] }} {{ text[::2] }} {{ text[::-1] }} {{ list[5:] }} {{ list[-9:2] }} {{ words[1:3] }} {{ words[3:0:-2] }}
{{ dict.a.deep[1].x }} {{ dict['a']['deep'][0] }} {{ dict.items() | list }} {{ dict['items'] }} {{ dict.keys() | list }} {{ dict.values() | list }}
{{ dict.get('b') }} {{ dict.get('z') }} {{ dict.get('z', 'd') }}
{{ messages[0].role }} {{ messages[0]['content'] }} {{ messages[-1].tool_calls[0].function.name }}
{% for x in list %}{{ x }},{% endfor %}
{% for x in empty %}x{% else %}none{% endfor %}
{% for x in list %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}
{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in list if x > 1 %}{{ loop.index }}:{{ x }} {% endfor %}
{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in dict %}{{ k }}{% endfor %}{% for c in 'né' %}[{{ c }}]{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }} {% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in range(2) %}{% for y in range(2) %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}
{% for x in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}
{% for x in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ x.n }}:{{ loop.depth }}({{ loop(x.c) }}){% endfor %}
{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}
{% set ns = namespace(x=1, y='a') %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}
{% set ns = namespace({'k': 2}) %}{{ ns.k }}{% set ns.new = [1] %}{{ ns.new }}{{ ns['k'] }}
{% set x %}block {{ number }}{% endset %}[{{ x }}]
{% set x | upper | trim %}  block {{ number }} {% endset %}[{{ x }}]
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}
{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}
{% macro m(a, b=2, c='x') %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=4) }}{{ m() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro outer() %}({{ caller() }}){% endmacro %}{% call outer() %}inner {{ number }}{% endcall %}
{% macro outer() %}({{ caller(1, 2) }}){% endmacro %}{% call(a, b) outer() %}{{ a }}+{{ b }}{% endcall %}
{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}
{% macro m(x) %}{% set y = x * 2 %}{{ y }}{% endmacro %}{{ m(2) }}{{ y }}{{ m.name }}
{% macro m(d={'a': 1}) %}{{ d.a }}{% endmacro %}{{ m() }}{{ m({'a': 3}) }}
{% filter upper %}shout {{ lower }}{% endfilter %}
{% raw %}{{ not done }} {% if %}{% endraw %}
{# a comment #}text{#- another -#}  end
{{ text | length }} {{ list | length }} {{ dict | count }} {{ missing | length }}
{{ padded | trim }}| {{ 'xxaxx' | trim('x') }} {{ text | upper }} {{ text | lower }} {{ lower | capitalize }} {{ lower | title }} {{ "it's a-b (c) d1e" | title }}
{{ missing | default('d') }} {{ nothing | default('d') }} {{ nothing | default('d', true) }} {{ blank | d('e', boolean=True) }} {{ missing | default }}|
{{ list | join(', ') }} {{ list | join }} {{ messages | join('|', attribute='role') }}
{{ list | first }} {{ list | last }} {{ empty | first }} {{ text | first }} {{ 'xyz' | last }}
{{ list | sort }} {{ list | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ messages | sort(attribute='role') | map(attribute='role') | list }}
{{ list | map('string') | list }} {{ words | map('upper') | join }} {{ messages | map(attribute='name', default='?') | list }}
{{ list | select('odd') | list }} {{ list | reject('odd') | list }} {{ mixed | select | list }} {{ list | select('>', 1) | list }} {{ list | select('in', [1, 3]) | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | join(',') }} {{ messages | selectattr('tool_calls') | list | length }} {{ messages | selectattr('tool_calls', 'defined') | list | length }}
{% if messages | selectattr('role', 'equalto', 'nobody') %}generators are true{% endif %}{% if messages | selectattr('role', 'equalto', 'nobody') | list %}x{% endif %}
{{ list | reverse | list }} {{ 'abc' | reverse }} {{ list | list }} {{ 'ab' | list }} {{ dict | list }}
{{ text | replace('l', 'L') }} {{ text | replace('l', 'L', 1) }} {{ 'aaa' | replace('', '-') }}
{{ '3' | int }} {{ '3.7' | int }} {{ 'x' | int }} {{ 'x' | int(-1) }} {{ 3.9 | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ '1f' | int(base=16) }} {{ ' 12 ' | int }} {{ none | int(4) }}
{{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.1 | round(method='ceil') }} {{ 2.9 | round(0, 'floor') }} {{ 1234 | round(-2) }}
{{ -3 | abs }} {{ minus | abs }} {{ half | string }} {{ [1, 'a'] | string }}
{{ lines | indent }} {{ lines | indent(2, true) }} {{ lines | indent(1, blank=true) }} {{ lines | indent('> ') }}
{{ dict | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }} {{ {'x': 1} | items | list }}
{{ '%s-%d-%.2f' | format('a', 3, 1.5) }} {{ '%s %s' % (1, 'b') }} {{ '%05d|%-4s|%%' % (42, 'x') }} {{ '%r' % ('q',) }}
{{ '<a href="x">&\'' | escape }} {{ '<' | e }} {{ 'x' | safe }}
{{ dict | tojson }} {{ mixed | tojson }} {{ text | tojson }} {{ 'a"b\\c\n<&>' | tojson }} {{ nothing | tojson }} {{ half | tojson }} {{ huge | tojson }}
{{ dict | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=4) }} {{ text | tojson(ensure_ascii=true) }} {{ dict | tojson(sort_keys=true) }} {{ list | tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4} | tojson }}
{{ dict | tojson(indent=none) }} {{ dict | tojson(2) }} {{ [1, [2, [3]]] | tojson(indent='--') }}
{{ messages | tojson }}
{{ text is defined }} {{ missing is defined }} {{ missing is undefined }} {{ nothing is none }} {{ text is string }} {{ number is number }} {{ yes is number }} {{ half is float }} {{ yes is integer }} {{ number is integer }}
{{ yes is true }} {{ 1 is true }} {{ no is false }} {{ yes is boolean }} {{ dict is mapping }} {{ list is sequence }} {{ text is sequence }} {{ list is iterable }} {{ number is iterable }} {{ dict is iterable }} {{ missing is iterable }} {{ dict is sequence }} {{ missing is sequence }}
{{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'a' is in 'abc' }} {{ 1 is in [1] }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ 'A' is upper }} {{ 'a' is lower }} {{ 3 is gt 2 }} {{ 3 is eq 3 }} {{ 2 is ne 3 }} {{ 2 is ge(2) }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }}
{{ number is not none }} {{ not number is none }} {{ missing is not defined and yes }} {{ 'x' if text is string else 'y' }} {{ (number is even) or yes }} {{ missing is defined or 'z' }}
{{ text.upper() }} {{ text.lower() }} {{ padded.strip() }}| {{ padded.lstrip() }}| {{ padded.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'xyax'.lstrip('xy') }} {{ 'axy'.rstrip('yx') }}
{{ lower.split() }} {{ lower.split(' ', 1) }} {{ lower.rsplit(' ', 1) }} {{ 'a,b,,c'.split(',') }} {{ '  a  b '.split() }} {{ ' a b c '.split(none, 1) }} {{ lines.splitlines() }} {{ lines.split('\n')[-1] }} {{ 'a'.split('b') }} {{ ''.split() }} {{ ''.split(',') }}
{{ text.startswith('Hell') }} {{ text.endswith('x') }} {{ text.startswith(('x', 'H')) }} {{ text.find('W') }} {{ text.find('zz') }} {{ text.index('你') }} {{ text.count('l') }} {{ 'abcabc'.rfind('b') }} {{ text.find('l', 5) }} {{ 'abc'.startswith('b', 1) }}
{{ text.replace('l', '') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ ', '.join(['a', 'b']) }} {{ lower.title() }} {{ "they're o'neil 3rd".title() }} {{ lower.capitalize() }} {{ 'ß'.upper() }} {{ 'ÀÉ'.lower() }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'a'.isalpha() }} {{ ' '.isspace() }} {{ ''.isdigit() }} {{ 'A'.isupper() }} {{ 'aB'.islower() }} {{ '{} and {}'.format(1, 'b') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}{{}}'.format(x=1) }}
{{ list.index(1) }} {{ list.count(1) }} {{ (1, 2).count(2) }}
{{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }} {{ range(0) | list }} {{ range(5)[2] }} {{ range(4) | length }}
{{ dict(a=1, b=2) }} {{ namespace(a=1).a }} {{ dict({'x': 1}, y=2) }} {{ dict([('p', 1)]) }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %-d, %H:%M:%S %j') }}
{% generation %}said {{ number }}{% endgeneration %} not said {% generation %}again{% endgeneration %}
{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}é{% endgeneration %}{% else %}ü{{ m.content }}{% endif %}{% endfor %}
{{ [1, 2, 3][1] }} {{ {'a': 1}['a'] }} {{ {'a': 1}.a }} {{ ('x', 'y')[1] }} {{ 'abc'[0] }} {{ list.0 }} {{ list | first + 1 }} {{ (list | first) + 1 }}
{{ list | length > 2 }} {{ not list | length == 0 }} {{ -list | first }} {{ text | length + 1 }}
{{ 1 if number > 5 and number < 10 else 2 }} {{ (1 if no else 2) + 3 }} {{ [x if yes else 1] if missing is not defined else 3 }}
{{ "multi
line" }}
{%- for m in messages -%}
    {%- if m.role == 'user' -%}
        {{ '<|user|>' + m.content | string }}
    {%- elif loop.last -%}
        {{- 'last' }}
    {% endif %}
{%- endfor %}
  {% if yes %}
  lstripped
  {%+ if yes %}
  kept
  {% endif +%}
  {% endif %}
end
a {% if yes %} b {% endif %} c

{{ text }}

x{{ '\n' }}
  {# comment line #}
after comment
  {{ number }}  
{% set x = [
  1,
  2,
] %}{{ x }}{{ {'a': 1,} }}{{ (1, 2,) }}
{{ f(x) if f is defined else 'nof' }}{{ missing.x if missing is defined }}
{{ text == missing }} {{ missing == missing2 }} {{ missing != 1 }} {{ none is defined }}
{{ ('a', 1) in [('a', 1)] }} {{ [1] in [[1]] }} {{ 'a' in ['A'] | map('lower') | list }}
{{ {'a': [1, 2]}.a | map('string') | join('-') }}{{ {1: 'one'}[1] }}{{ {'x': {'y': none}}.x.y }}
{% set m = messages | selectattr('role', 'equalto', 'system') | first %}{{ m.content }}{% set r = messages[1:] %}{{ r | length }}
{% for message in messages %}{% set content = message.content if message.content is string else message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join %}{{ loop.index0 % 2 == 0 }}:{{ content | trim }}
{% endfor %}
{{ text.nothing }} {{ list.nothing }} {{ nothing.x }} {{ number.x }}
"""

# What transformers raises, too.
FAILING = r"""
{{ missing.x }}
{{ missing['x'] }}
{{ missing + 1 }}
{{ missing() }}
{{ text() }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 'a' < 1 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ none | length }}
{{ 1 in 2 }}
{{ 1 in 'abc' }}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{{ raise_exception('roles must alternate') }}
{{ list.append(1) }}
{{ dict.update({'a': 1}) }}
{{ dict.pop('b') }}
{{ text.__class__ }}{{ text.__class__.x }}
{{ ''.join([1]) }}
{{ missing | tojson }}
{{ range(1000000) | list }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
{% set x.y = 1 %}
{% set a, b = 1 %}
{% set a, b = [1, 2, 3] %}
{{ messages | selectattr('role', 'equalto', 'x') | length }}
{{ text | nofilter }}
{{ text is notest }}
{% if yes %}
{% endif %}
{% for x in list %}
{% endfor x %}
{% nosuchtag %}
{{ }}
{{ 1 2 }}
{{ (1 }}
{{ [1) }}
{{ 'open }}
{% set %}
{% set true = 1 %}
{{ {'a' 1} }}
{# open
{% raw %} open
{{ a.1b }}
{{ text | }}
{{ a is b is c }}
{{ not }}
{% macro m(a=1, b) %}{% endmacro %}
{{ f(a=1, 2) }}
{% set ns = namespace(_x=1) %}
{{ list | select('nosuch') | list }}
{{ list | map('nosuch') | list }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ dict | sort(attribute='x') | first | abs }}
{{ 'abc'.index('z') }}
{{ 'abc'.split('') }}
{{ none[0].x }}
"""

# Every operator, filter, test and method over values of every kind, in products: what one meets by chance.
KINDS = ("none", "true", "false", "0", "7", "-7", "2.5", "-0.5", "''", "'abc'", "'B'", "'é'", "' 12 '", "[]", "[2, 1]", "['a', 'B']", "{}",
         "{'a': 1}", "(1, 2)", "missing", "range")
OPERATORS = ("+", "-", "*", "/", "//", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "~", "and", "or")
FILTERS = """abs capitalize count d('x') d('x',true) dictsort e escape first float float(1.5) int int(9) int(base=8) items|list join join('-')
    last length list lower map('string')|list reject|list reverse|list round round(1) round(0,'ceil') safe select|list sort sort(reverse=true)
    string title tojson trim trim('a') upper replace('a','b') indent(2)
    format(1) select('string')|list reject('number')|list map('upper')|list""".split()
TESTS = """boolean callable defined divisibleby(2) eq(7) even false float ge(0) gt(0) in([7,'abc',none]) integer iterable le(0) lower lt(0) mapping ne(0)
    none number odd sameas(none) sequence string true undefined upper""".split()
TEXTS = ("''", "'abc'", "'aXbXc'", "'  two words\\n'", "'ÀÉ straße'", "'12'", "'\\u2028x\\u00a0'", "'it\\'s'")
METHODS = """capitalize() count('X') count('') endswith('c') endswith('X',0,2) find('X') find('X',2) find('X',-3,-1) find('') isalnum() isalpha() isdigit()
    islower() isspace() isupper() join(['1','2']) lower() lstrip() lstrip('a ') removeprefix('a') removesuffix('c') replace('X','-')
    replace('X','-',1) replace('','.') rfind('X') rfind('X',0,2) rsplit('X',1) rsplit() rstrip() rstrip('c') split('X') split('X',1) split(none,1)
    split() splitlines() splitlines(true) startswith('a') startswith('X',1) startswith(('b','a')) strip() strip('ac') title() upper() index('X')""".split()
SPACES = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x200B, 27, 33)


def products():
    """Of each group: its expressions that render, their text, and those that fail."""
    whites = ["'" + f"\\u{c:04x}x\\u{c:04x}" + "'.strip() | length" for c in SPACES]
    slices = [f"'abcde'[{a}:{b}:{c}]" for a, b, c in itertools.product(("", "1", "-2", "9"), ("", "3", "-1", "-9"), ("", "2", "-1", "-2"))]
    groups = [[f"{a} {op} {b}" for b in KINDS] for op in OPERATORS for a in KINDS]
    groups += [[f"({a}) | {call}" for a in KINDS] for call in FILTERS] + [[f"({a}) is {call}" for a in KINDS] for call in TESTS]
    groups += [[f"{a}.{call}" for a in TEXTS] for call in METHODS] + [whites, slices]
    for expressions in groups:
        # Beyond 64 bits, complex, or an address: nothing that a template prints.
        texts = {one: rendered("{{ " + one + " }}", {}) for one in expressions}
        works = [one for one in expressions if "text" in texts[one] and not re.search(r"\d{19}|j\)| 0[xX]|<class", texts[one]["text"])]
        yield {"render": works, "text": "|".join(texts[one]["text"] for one in works),
               "fail": [one for one in expressions if "error" in texts[one]]}


# Conversations as they come, over templates written for the purpose.
CHAT_TEMPLATES = {
    "turns": "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
             "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
             "{{ '[' + m.role + '] ' + m.content | trim }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}",
    "marked": "{%- for message in messages %}\n    {{- '<|' + message['role'] + '|>\\n' }}\n"
              "    {%- if message['role'] == 'assistant' %}\n        {%- generation %}\n"
              "            {{- message['content'] + eos_token }}\n        {%- endgeneration %}\n    {%- else %}\n"
              "        {{- message['content'] + eos_token }}\n    {%- endif %}\n    {{- '\\n' }}\n{%- endfor %}\n"
              "{%- if add_generation_prompt %}\n    {{- '<|assistant|>\\n' }}\n{%- endif %}",
    "tools": "{%- set ns = namespace(system='', first=true) -%}\n{%- if messages and messages[0].role == 'system' -%}\n"
             "{%- set ns.system = messages[0].content -%}\n{%- set messages = messages[1:] -%}\n{%- endif -%}\n"
             "{{- ns.system -}}\n{%- if tools -%}\n{%- for tool in tools -%}\n{{- '\\n' + tool | tojson -}}\n{%- endfor -%}\n"
             "{%- endif -%}\n{%- macro turn(m) -%}\n<{{ m.role }}>\n{%- if m.content is string -%}{{ m.content }}\n"
             "{%- elif m.content -%}\n{%- for part in m.content -%}{{ part.text if part.type == 'text' else '<image>' }}"
             "{%- endfor -%}\n{%- endif -%}\n{%- for call in m.tool_calls or [] -%}\n"
             "{{- call.function.name }}({{ call.function.arguments | tojson(indent=2) }})\n{%- endfor -%}\n{%- endmacro -%}\n"
             "{%- for m in messages -%}\n{{- turn(m) -}}\n{%- endfor -%}",
}


def chats():
    texts = ["Hi", "  padded\n", "多语言 ünï", "a 'quoted' \"text\" {{ not jinja }}", "two\n\nlines"]
    systems = [None, "You are brief."]
    for turns, system, offset in itertools.product((1, 2, 3), systems, (0, 2)):
        chat = [] if system is None else [{"role": "system", "content": system}]
        for i in range(turns):
            chat.append({"role": "user", "content": texts[(offset + i) % len(texts)]})
            chat.append({"role": "assistant", "content": texts[(offset + 2 * i + 1) % len(texts)]})
        yield chat
    yield [{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"}]}, {"role": "assistant", "content": "seen"}]
    yield [{"role": "user", "content": "sum"},
           {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, "é"]}}}]},
           {"role": "tool", "name": "add", "content": "3"}, {"role": "assistant", "content": "It is 3."}]
    yield [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": "So?"}]
    yield [{"role": "user", "content": "think"}, {"role": "assistant", "content": "done", "reasoning_content": "so"}]


TOOLS = [{"type": "function", "function": {"name": "add", "description": "adds <a> & <b>", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "array", "items": {"type": "number"}}}, "required": ["a"]}}}]


class FixedTime(datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def rendered(template, variables):
    """Text and generation spans in bytes, or the error's text."""
    variables = json.loads(json.dumps(variables))
    try:
        compiled = utils._compile_jinja_template(template)
        blocks, spans = [], []
        if re.search(r"\{%-?\s*generation\s*-?%\}", template):
            with compiled.environment.activate_tracker(blocks, spans):
                for block in compiled.generate(**variables):
                    blocks.append(block)
            text = "".join(blocks)
        else:
            text = compiled.render(**variables)
        return {"text": text, "generation": [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]}
    except (Exception, RecursionError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def split(block):
    """One template a line, or several up to an empty line where it begins with a line of blanks or `{%-`."""
    whole = [("{%- for m in messages -%}", "{%- endfor %}"), ("  {% if yes %}", "end"), ("a {% if yes %} b", "  {{ number }}  "),
             ("{{ \"multi", "line\" }}"), ("{% set x = [", "] %}{{ x }}{{ {'a': 1,} }}{{ (1, 2,) }}"), ("{% for message in", "{% endfor %}")]
    lines, snippets = block.strip("\n").split("\n"), []
    while lines:
        line = lines.pop(0)
        ends = [end for begin, end in whole if line.startswith(begin)]
        while ends and (not line.endswith("\n" + ends[0])) and lines:
            line += "\n" + lines.pop(0)
        snippets.append(line)
    return snippets


def conversations_of(template):
    for chat, prompt, tools in itertools.product(chats(), (False, True), (None, TOOLS)):
        yield {"messages": chat, "tools": tools, "documents": None, "add_generation_prompt": prompt,
               "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def write(name, value):
    path = HERE / "jinja" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path, path.stat().st_size)


def compare(folder, program):
    names = sorted(Path(folder).glob("*.jinja"))
    equal = refused = 0
    for path in names:
        template = path.read_text(encoding="utf-8")
        cases = list(conversations_of(template))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(cases, file)
            file.flush()
            ended = subprocess.run([program, str(path), file.name, str(int(NOW.timestamp()))], capture_output=True, text=True)
        if ended.returncode != 0:
            print(f"{path.name}: {ended.stderr.strip()}")
            continue
        wrong = []
        for case, ours in zip(cases, json.loads(ended.stdout), strict=True):
            theirs = rendered(template, case)
            refused += "error" in theirs
            same = "error" in ours if "error" in theirs else ours == theirs
            if not same:
                wrong.append((case, ours, theirs))
        if wrong:
            print(f"{path.name}: {len(wrong)} of {len(cases)} differ; the first:\n  ours   {wrong[0][1]}\n  theirs {wrong[0][2]}")
        equal += not wrong
    print(f"{equal} of {len(names)} templates render alike, {refused} conversations refused by both")
    return equal != len(names)


if __name__ == "__main__":
    with mock.patch.object(utils, "datetime", FixedTime):
        if sys.argv[1:2] == ["--published"]:
            sys.exit(compare(*sys.argv[2:4]))
        cases = [{"template": t, **rendered(t, VALUES)} for t in split(SNIPPETS)]
        for case in cases:
            if "error" in case:
                print("fails in transformers:", case)
        cases += [{"template": t, **rendered(t, VALUES)} for t in split(FAILING)]
        for case in cases[-len(split(FAILING)):]:
            if "error" not in case:
                print("does not fail in transformers:", case)
        write("snippets.json", {"now": int(NOW.timestamp()), "variables": VALUES, "cases": cases})
        write("products.json", list(products()))
        write("chats.json", [{"name": name, "template": template, "cases": [
            {"variables": v, **rendered(template, v)} for v in conversations_of(template)]} for name, template in CHAT_TEMPLATES.items()])
