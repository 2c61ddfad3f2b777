#!/usr/bin/env python3
"""Puts something that nothing reads into data of every form, and looks whether it is named.

    python silent_drops.py PROGRAM [TRIES] [SEED]

A field, a key of a message, of a part, of a call or of a function, a role, or a column gets a name and a value that occur
nowhere else. PROGRAM (build/*/bin/sftbench) has to train on the value, so that it stands among the tokens, or to name the
field with a count. A refusal that names it counts as named. Exits with 1 when one was dropped in silence, and prints it.
"""
import csv
import io
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

# Reads role, content, tool_calls and reasoning_content, as most published ones do.
TEMPLATE = """{%- for m in messages %}<{{ m.role }}>{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}<call>{{ call.function.name }} {{ call.function.arguments | tojson }}{% endfor %}
{{- eos_token if m.role == 'assistant' else '' }}
{% endfor %}"""
ROLES = "<{{ m.role }}>"
STRICT = TEMPLATE.replace(ROLES, "{% if m.role in ('system', 'user', 'assistant', 'tool') %}" + ROLES).replace(
    "\n{% endfor %}", "\n{% endif %}{% endfor %}")


def words(rng):
    return " ".join(rng.choice("river stone bridge early market copper signal harvest".split()) for _ in range(4))


def messages(rng):
    turns = []
    for _ in range(rng.randint(1, 3)):
        turns.append({"role": "user", "content": words(rng)})
        turns.append({"role": "assistant", "content": words(rng)})
    if rng.random() < 0.5:
        turns.insert(0, {"role": "system", "content": words(rng)})
    if rng.random() < 0.4:
        turns[-1]["tool_calls"] = [{"type": "function", "function": {"name": "f", "arguments": {"x": words(rng)}}}]
    if rng.random() < 0.3:
        turns[0]["content"] = [{"type": "text", "text": words(rng)}]
    return turns


def sharegpt(rng):
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    return [{"from": names[m["role"]], "value": m["content"]} for m in messages(rng)
            if isinstance(m["content"], str) and "tool_calls" not in m] or [{"from": "human", "value": words(rng)},
                                                                           {"from": "gpt", "value": words(rng)}]


FORMS = {
    "text": (lambda rng: {"output": words(rng)}, []),
    "messages": (lambda rng: {"messages": messages(rng)}, []),
    "sharegpt": (lambda rng: {"conversations": sharegpt(rng)}, []),
    "template": (lambda rng: {"q": words(rng), "a": words(rng)}, ["--template", "{{q}} ### Response: {{a}}"]),
    "columns": (lambda rng: {"q": words(rng), "a": words(rng)}, ["--input-column", "q", "--output-column", "a"]),
    "alpaca": (lambda rng: {"instruction": words(rng), "input": words(rng), "output": words(rng)}, []),
    "prompt and completion": (lambda rng: {"prompt": words(rng), "completion": words(rng)}, []),
    "prompt and completion, messages": (lambda rng: {"prompt": [{"role": "user", "content": words(rng)}],
                                                     "completion": [{"role": "assistant", "content": words(rng)}]}, []),
    "tokens": (lambda rng: {"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, []),
    "csv": (lambda rng: {"instruction": words(rng), "input": words(rng), "output": words(rng)}, []),
}


def places(entry):
    """Objects that a key can go to, and lists of messages that a role can."""
    found = [(entry, "column")]
    for name in ("messages", "conversations", "prompt", "completion"):
        turns = entry.get(name)
        if not isinstance(turns, list):
            continue
        found.append((turns, "role"))
        for message in turns:
            found.append((message, "key of a message"))
            if isinstance(message.get("content"), list):
                found += [(part, "key of a part") for part in message["content"]]
            for call in message.get("tool_calls", []):
                found += [(call, "key of a call"), (call["function"], "key of a function")]
    return found


def value(rng, mark):
    return rng.choice([mark, {"inner": mark}, [mark, 1], 7, 2.5, True, {"a": {"b": [mark]}}])


def try_once(program, folder, rng):
    form = rng.choice(list(FORMS))
    make, options = FORMS[form]
    entries = [make(rng) for _ in range(rng.randint(1, 4))]
    name, mark = f"extra{rng.randint(10**6, 10**7)}", f"mark{rng.randint(10**6, 10**7)}"
    target, kind = rng.choice(places(rng.choice(entries)))
    if form == "csv":
        for entry in entries:
            entry[name] = mark
    elif kind == "role":
        message = {"role": name, "content": mark} if "role" in target[0] else {"from": name, "value": mark}
        target.insert(rng.randint(0, len(target)), message)
    else:
        target[name] = mark if rng.random() < 0.5 else value(rng, mark)
    data = folder / ("data.csv" if form == "csv" else "data.jsonl")
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, entries[0])
        writer.writeheader()
        writer.writerows(entries)
        data.write_text(text.getvalue())
    else:
        data.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    options = list(options)
    if any(key in entries[0] for key in ("messages", "conversations")) or isinstance(entries[0].get("prompt"), list):
        template = folder / "template.jinja"
        template.write_text(rng.choice([TEMPLATE, STRICT]))
        options += ["--chat-template", str(template)]
    shown = subprocess.run([program, "dataset", "show", data, "-n", "10", "--format", "json", *options],
                           capture_output=True, text=True)
    read = False
    if shown.returncode == 0:
        tokens = "".join(token["token"] for token in json.loads(shown.stdout)).replace("Ġ", " ")
        read = mark in tokens
    named = name in shown.stderr
    if read or named:
        return "read" if read else "named" if shown.returncode == 0 else "refused"
    print(f"dropped in silence: {kind} {name} of {form}\n  {json.dumps(entries)}\n  {shown.stderr.strip()}", flush=True)
    return "dropped"


def main():
    program = sys.argv[1]
    tries, seed = (int(argument) for argument in (sys.argv[2:] + ["1000", "1"][len(sys.argv) - 2:])[:2])
    rng, counts = random.Random(seed), {}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(tries):
            outcome = try_once(program, Path(name), rng)
            counts[outcome] = counts.get(outcome, 0) + 1
    print(f"{tries} tries, seed {seed}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    sys.exit(1 if counts.get("dropped") else 0)


if __name__ == "__main__":
    main()
