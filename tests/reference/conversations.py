#!/usr/bin/env python3
"""Conversations in the forms that data have, and what of them bears loss: transformers' ids and assistant mask.

Writes data/conversations.json. Each template stands in it twice: marked with {% generation %}, which is what transformers
tells the mask by, and without, where this program has to find the same by itself. An entry stands in it as data have it, and
what transformers is given is the same in its own form, written here by hand.

Made with transformers 5.24, which leaves out keys of messages without a value:
    python conversations.py

What stands here is our own: no published template is copied. They do what some published ones do.
"""
import json
import re
from pathlib import Path

from transformers import AutoTokenizer

HERE = Path(__file__).parent

TURNS = """{%- if tools %}<tools>{{ tools | tojson }}</tools>
{% endif %}
{%- for message in messages %}
{{- '<' + message.role + '>' }}
{%- if message.role == 'assistant' %}{% generation %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '<call>' + call.function.name + ' ' + call.function.arguments | tojson + '</call>' }}
{%- endfor %}
{{- '<end>\\n' }}{% endgeneration %}
{%- else %}{{ message.content + '<end>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""

# Reasoning of earlier answers is left out, that of the last one is not, as Qwen3 does it.
FORGETS = """{%- set ns = namespace(last=0) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
{{- '<' + message.role + '>' }}
{%- if message.role == 'assistant' %}{% generation %}
{%- set words = message.content.split('</think>')[-1].lstrip('\\n') %}
{%- if loop.index0 > ns.last %}
{%- set thoughts = message.content.split('</think>')[0].split('<think>')[-1].strip() if '</think>' in message.content else '' %}
{{- '<think>\\n' + thoughts + '\\n</think>\\n\\n' }}
{%- endif %}
{{- words + '<end>\\n' }}{% endgeneration %}
{%- else %}{{ message.content + '<end>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""

# A conversation without a question is refused, and the prompt begins thoughts that earlier answers lack, as Qwen3.5 does it.
NEEDS_USER = """{%- if not messages | selectattr('role', 'equalto', 'user') | list %}
{{- raise_exception('No user query found.') }}{% endif %}
{%- for message in messages %}
{{- '<' + message.role + '>' }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content | trim + '<end>\\n' }}{% endgeneration %}
{%- else %}{{ message.content | trim + '<end>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant><think>\\n' }}{% endif %}"""

# The system text stands in front of the last question, and the question's end asks for the answer, as Mistral does it.
LAST_QUESTION = """{%- if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}
{%- else %}{% set rest = messages %}{% endif %}
{%- set users = rest | selectattr('role', 'equalto', 'user') | list %}
{%- for message in rest %}
{%- if message.role == 'user' %}
{{- '[Q]' + (system + '\\n\\n' if system is defined and message == users[-1] else '') + message.content + '[/Q]' }}
{%- else %}{% generation %}{{ ' ' + message.content + eos_token }}{% endgeneration %}{% endif %}
{%- endfor %}"""

# Arguments of calls are written as the text that they are, as DeepSeek V3 does it.
ARGUMENT_TEXTS = """{%- for message in messages %}
{{- '<' + message.role + '>' }}
{%- if message.role == 'assistant' %}{% generation %}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}{{ call.function.name + '(' + call.function.arguments + ')' }}{% endfor %}
{%- else %}{{ message.content }}{% endif %}
{{- eos_token }}{% endgeneration %}
{%- else %}{{ message.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""

USER = {"role": "user", "content": "Weather in Rome?"}
ANSWER = {"role": "assistant", "content": "21 degrees."}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"town": "Rome"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALLED = [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "content": "21"}, ANSWER]
THINKS = [{"role": "user", "content": "What is two and two?"},
          {"role": "assistant", "content": "<think>\nTwo, and another two, which I count by my fingers.\n</think>\n\nFour."},
          {"role": "user", "content": "And what is three and three, please, written as a word?"},
          {"role": "assistant", "content": "<think>\nadd\n</think>\n\nSix."}]
BRIEF = {"role": "system", "content": "Be brief."}
TALK = [BRIEF, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Ho"}, {"role": "assistant", "content": "No."}]


def said(turns, **more):
    return {"conversations": [{"from": role, "value": text} for role, text in turns], **more}


# name, template, column, entry, what transformers gets of it, messages that bear loss (None: all of assistants)
CASES = [
    ("openai", TURNS, "messages", {"messages": [USER, ANSWER]}, [USER, ANSWER], None, None),
    ("tools as a text", TURNS, "messages", {"messages": [USER, ANSWER], "tools": json.dumps([TOOL])}, [USER, ANSWER], [TOOL], None),
    ("one tool as an object", TURNS, "messages", {"messages": [USER, ANSWER], "tools": TOOL}, [USER, ANSWER], [TOOL], None),
    ("functions", TURNS, "messages", {"messages": [USER, ANSWER], "functions": [TOOL["function"]]}, [USER, ANSWER], [TOOL], None),
    ("null content", TURNS, "messages",
     {"messages": [USER, {"role": "assistant", "content": None, "name": None,
                          "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": "{\"town\": \"Rome\"}"}}]},
                   {"role": "tool", "content": "21"}, ANSWER]},
     [USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "21"}, ANSWER], None, None),
    ("parts", TURNS, "messages",
     {"messages": [{"role": "user", "content": [{"type": "text", "text": "Weather "}, {"type": "text", "text": "in Rome?"}]}, ANSWER]},
     [USER, ANSWER], None, None),
    ("function_call of OpenAI", TURNS, "messages",
     {"messages": [USER, {"role": "assistant", "content": "", "function_call": {"name": "weather", "arguments": "{\"town\": \"Rome\"}"}},
                   {"role": "function", "content": "21"}, ANSWER]}, CALLED, None, None),
    ("roles", TURNS, "messages",
     {"messages": [{"role": "human", "content": "Weather in Rome?"}, {"role": "Assistant", "content": "21 degrees."}]},
     [USER, ANSWER], None, None),
    ("weight", TURNS, "messages",
     {"messages": [USER, dict(ANSWER, weight=0), USER, dict(ANSWER, weight=1)]}, [USER, ANSWER, USER, ANSWER], None, [3]),
    ("sharegpt", TURNS, "conversations", said([("human", "Weather in Rome?"), ("gpt", "21 degrees.")]), [USER, ANSWER], None, None),
    ("sharegpt of others", TURNS, "conversations", said([("user", "Weather in Rome?"), ("bing", "21 degrees.")]), [USER, ANSWER], None, None),
    ("function_call and observation", TURNS, "conversations",
     said([("human", "Weather in Rome?"), ("function_call", json.dumps({"name": "weather", "arguments": {"town": "Rome"}})),
           ("observation", "21"), ("gpt", "21 degrees.")]), CALLED, None, None),
    ("system column", TURNS, "conversations", said([("human", "Weather in Rome?"), ("gpt", "21 degrees.")], system="Be brief."),
     [BRIEF, USER, ANSWER], None, None),
    ("prompt and completion", TURNS, "completion",
     {"prompt": [USER, ANSWER, USER], "completion": [ANSWER]}, [USER, ANSWER, USER, ANSWER], None, [3]),
    ("begins with an answer", TURNS, "messages", {"messages": [ANSWER, USER, ANSWER]}, [ANSWER, USER, ANSWER], None, None),
    ("two answers", TURNS, "messages", {"messages": [USER, ANSWER, ANSWER]}, [USER, ANSWER, ANSWER], None, None),
    ("forgets reasoning", FORGETS, "messages", {"messages": THINKS}, THINKS, None, None),
    ("forgets, no reasoning", FORGETS, "messages", {"messages": TALK}, TALK, None, None),
    ("needs a user", NEEDS_USER, "messages", {"messages": TALK}, TALK, None, None),
    ("needs a user, one turn", NEEDS_USER, "messages", {"messages": TALK[:3]}, TALK[:3], None, None),
    ("system at the last question", LAST_QUESTION, "messages", {"messages": TALK}, TALK, None, None),
    ("arguments as texts", ARGUMENT_TEXTS, "messages", {"messages": CALLED},
     [USER, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": "{\"town\": \"Rome\"}"}}]},
      {"role": "tool", "content": "21"}, ANSWER], None, None),
]


def main():
    tokenizer = AutoTokenizer.from_pretrained(HERE / "training" / "tokenizer")
    cases = []
    for name, template, column, entry, messages, tools, learned in CASES:
        tokenizer.chat_template = template
        made = tokenizer.apply_chat_template(messages, tools=tools, return_assistant_tokens_mask=True, return_dict=True)
        mask = made["assistant_masks"]
        if learned is not None:
            turns, last = -1, 0
            answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
            for i, marked in enumerate(mask):
                turns += marked and not last
                last = marked
                if marked and answers[turns] not in learned:
                    mask[i] = 0
        labels = [token if marked else -100 for token, marked in zip(made["input_ids"], mask)]
        plain = re.sub(r"\{% (end)?generation %\}", "", template)
        cases.append({"name": name, "marked": template, "plain": plain, "column": column, "entry": entry,
                      "input_ids": made["input_ids"], "labels": labels})
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "data" / "conversations.json").write_text("[" + text + "]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
