#!/usr/bin/env python3
"""What of conversations bears loss under published templates: words of assistants all, words of others none.

    python published_masks.py DIR PROGRAM

DIR has *.jinja (trl 1.16 installs 72 of 41 models in trl/chat_templates), PROGRAM is build/*/bin/sftbench. Every word of a
conversation names its speaker. A conversation that transformers renders has to be taken. Its words have to be those of
transformers, and each of them has to bear loss or not as its speaker says. Some templates render nothing of texts in parts:
there any words will do. Prints a line for each template, and exits with 1 when one is wrong. Nothing of a template stands
here.

pip install transformers jinja2.
"""
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
WORD = re.compile(r"(?:SYS|ASK|ANS|THINK|ARG|RESULT|DEF)\d+")
LEARNED = ("ANS", "THINK", "ARG")

TOOLS = [{"type": "function", "function": {
    "name": "look_up", "description": "DEF1 looks something up",
    "parameters": {"type": "object", "properties": {"place": {"type": "string", "description": "DEF2"}},
                   "required": ["place"]}}}]


def call(number, **more):
    return {"type": "function", "id": f"call0000{number}",
            "function": {"name": "look_up", "arguments": {"place": f"ARG{number}"}, **more}}


def system(number=1):
    return {"role": "system", "content": f"SYS{number} be brief"}


def ask(number):
    return {"role": "user", "content": f"ASK{number} what is it?"}


def answer(number, **more):
    return {"role": "assistant", "content": f"ANS{number} it is so", **more}


def result(number):
    return {"role": "tool", "name": "look_up", "tool_call_id": f"call0000{number}", "content": f"RESULT{number} found"}


CONVERSATIONS = {
    "one turn": [ask(1), answer(1)],
    "system": [system(), ask(1), answer(1)],
    "three turns": [ask(1), answer(1), ask(2), answer(2), ask(3), answer(3)],
    "system, three turns": [system(), ask(1), answer(1), ask(2), answer(2), ask(3), answer(3)],
    "thoughts in the content": [ask(1), answer(1, content="<think>\nTHINK1 so\n</think>\n\nANS1 it is so")],
    "thoughts in each answer": [ask(1), answer(1, content="<think>\nTHINK1\n</think>\n\nANS1"), ask(2),
                                answer(2, content="<think>\nTHINK2\n</think>\n\nANS2")],
    "thoughts of their own": [ask(1), answer(1, reasoning_content="THINK1 so"), ask(2),
                              answer(2, reasoning_content="THINK2 so")],
    "a call": [ask(1), answer(1, tool_calls=[call(1)]), result(1), answer(2)],
    "a call alone": [ask(1), {"role": "assistant", "content": "", "tool_calls": [call(1)]}, result(1), answer(2)],
    "a call without content": [ask(1), {"role": "assistant", "tool_calls": [call(1)]}, result(1), answer(2)],
    "calls, then a question": [system(), ask(1), answer(1, tool_calls=[call(1)]), result(1), answer(2), ask(2), answer(3)],
    "two calls at once": [ask(1), answer(1, tool_calls=[call(1), call(2)]), result(1), result(2), answer(2)],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "ASK1"}, {"type": "text", "text": "ASK2"}]},
              {"role": "assistant", "content": [{"type": "text", "text": "ANS1"}]}],
    "developer": [{"role": "developer", "content": "SYS1"}, ask(1), answer(1)],
    "an open question": [ask(1), answer(1), ask(2)],
    "two answers": [ask(1), answer(1), answer(2)],
    "two questions": [ask(1), ask(2), answer(1)],
    "an empty answer": [ask(1), answer(1, content=""), ask(2), answer(2)],
    "white space": [ask(1), answer(1, content="  ANS1\n\n ANS2 \n"), {"role": "user", "content": "\n ASK2 \n"}, answer(3)],
    "the same words": [{"role": "user", "content": "yes ASK1 yes"}, answer(1, content="yes ANS1 yes")],
}
WITH_TOOLS = ("a call", "calls, then a question", "two calls at once", "one turn")


def entries():
    for name, messages in CONVERSATIONS.items():
        yield name, messages, None
        if name in WITH_TOOLS:
            yield name + ", tools", messages, TOOLS


def rendered(template, messages, tools):
    """transformers' words, in order; none: the template refuses."""
    try:
        texts, _ = render_jinja_template([messages], chat_template=template, tools=tools, **SPECIAL)
    except Exception:
        return None
    return WORD.findall(texts[0])


def shown(program, folder, template, messages, tools):
    data = folder / "entry.jsonl"
    data.write_text(json.dumps({"messages": messages, **({"tools": tools} if tools else {})}) + "\n")
    found = subprocess.run([program, "dataset", "show", data, "--chat-template", template, "--format", "json",
                            "--model-max-length", "100000", "--conversation-column", "messages"],
                           capture_output=True, text=True)
    if found.returncode:
        return None, found.stderr.strip().splitlines()[-1]
    text, loss = "", []
    for token in json.loads(found.stdout):
        text += token["token"]
        loss += [token["loss"]] * len(token["token"])
    return [(match.group(), loss[match.start():match.end()]) for match in WORD.finditer(text)], found.stderr


def check(program, template):
    text, wrong, counts = template.read_text(), [], {"right": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as name:
        for conversation, messages, tools in entries():
            expected = rendered(text, messages, tools)
            words, said = shown(program, Path(name), template, messages, tools)
            if expected is None:
                counts["refused"] += 1
                continue
            learned = [word for word in expected if word.startswith(LEARNED)]
            if words is None:
                # Nothing of an assistant in the text, or nothing that could be learned from.
                if learned:
                    wrong.append(f"{conversation}: {said}")
                continue
            mistakes = [word for word, loss in words
                        if not (all(loss) if word.startswith(LEARNED) else not any(loss))]
            # Some templates render no text in parts, which transformers drops, and which is one text here.
            if [word for word, _ in words] != expected and (expected or mistakes):
                wrong.append(f"{conversation}: rendered {[word for word, _ in words]}, not {expected}")
            elif mistakes:
                wrong.append(f"{conversation}: {mistakes} of {expected}"
                             + (" (said: doubtful)" if "doubtful" in said else ""))
            else:
                counts["right"] += 1
    return template.name, counts, wrong


def main():
    folder, program = Path(sys.argv[1]), sys.argv[2]
    failed = 0
    total = {"right": 0, "refused": 0}
    with ThreadPoolExecutor(2) as pool:
        for name, counts, wrong in pool.map(lambda template: check(program, template), sorted(folder.glob("*.jinja"))):
            failed += len(wrong)
            total = {key: total[key] + counts[key] for key in total}
            print(f"{name}: {counts['right']} right, {counts['refused']} that transformers refuses, {len(wrong)} wrong",
                  *wrong, sep="\n    ", flush=True)
    print(f"{total['right']} right, {total['refused']} refused by transformers, {failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
