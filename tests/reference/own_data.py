#!/usr/bin/env python3
"""Data of one's own in every form: labels by fms-hf-tuning's handlers, and ten steps of the real Trainer on them.

Writes own_data/: the files (pairs.json, an array; texts.jsonl; tokens.jsonl) and golden.json, which has for each form
ids and labels of every entry and what Trainer logged. Model, tokenizer and loop are those of training.py.

Made with transformers 5.23, torch 2.15 and fms-hf-tuning v2.8.2, a checkout of which is on the path:
    PYTHONPATH=fms-hf-tuning python own_data.py
    PYTHONPATH=fms-hf-tuning python own_data.py chats    writes chats.jsonl, chat.jinja and chats.json alone: conversations,
        with fms-hf-tuning v3.2.0-rc2, whose handler (that of v2.8.2 otherwise) knows transformers 5
    python own_data.py tables    writes pairs and tokens anew as Parquet and Arrow, with pyarrow 26.0 alone
"""
import json
import random
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "own_data"

if sys.argv[1:] != ["tables"]:
    if sys.argv[1:] == ["chats"]:
        from tuning.data.data_handlers import tokenize_and_apply_chat_template_with_masking
    else:
        from tuning.data.data_handlers import apply_custom_data_formatting_template, tokenize_and_apply_input_masking
    from transformers import AutoTokenizer, DataCollatorForSeq2Seq

    import training
    from training import FOLDER as MODELS
    from training import MAX_LENGTH

TEMPLATE = "### Input: {{input}} \n\n## Label: {{output}}"
LABEL = "\n## Label:"
ARGUMENTS = dict(learning_rate=3e-3, lr_scheduler_type="cosine_with_min_lr", lr_scheduler_kwargs={"min_lr_rate": 0.1},
                 warmup_steps=3, weight_decay=0.1, adam_beta1=0.85, adam_beta2=0.95, adam_epsilon=1e-6,
                 max_grad_norm=0.25, seed=7)


def make_pairs():
    rng = random.Random(17)
    words = ("river stone bridge early market copper signal harvest window paper train garden silver morning "
             "engine letter number valley winter captain").split()
    pick = lambda low, high: " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))
    pairs = [{"input": pick(2, 6), "output": pick(3, 24)} for _ in range(training.ENTRIES)]
    pairs[3] = {"input": "ends with a line\n", "output": pick(4, 8)}
    pairs[4] = {"input": "naïve café, \"quoted\" \\ slash", "output": "\tbegins with a tab, 東京"}
    pairs[7] = {"input": pick(40, 40), "output": "no room for an answer"}
    pairs[9] = {"input": "", "output": pick(5, 5)}
    return pairs


def with_response(tokenizer, text, template):
    """trl's DataCollatorForCompletionOnlyLM as fms-hf-tuning calls it: what stands before the response is masked."""
    ids = tokenizer(text)["input_ids"][:MAX_LENGTH]
    response = tokenizer.encode(template, add_special_tokens=False)[2:]
    starts = [i for i in range(len(ids)) if ids[i:i + len(response)] == response]
    begin = starts[-1] + len(response) if starts else len(ids)
    return {"input_ids": ids, "labels": [-100] * begin + ids[begin:]}


def forms(tokenizer, pairs):
    eos = tokenizer.eos_token
    limits = dict(max_length=MAX_LENGTH, truncation=True)
    template = [apply_custom_data_formatting_template(pair, tokenizer, "text", TEMPLATE)["text"] for pair in pairs]
    masked = [tokenize_and_apply_input_masking(pair, tokenizer, column_names=list(pair), input_field_name="input",
                                               output_field_name="output", tokenizer_kwargs=limits)
              for pair in pairs]
    whole = [{"input_ids": ids, "labels": ids} for ids in
             (tokenizer(pair["output"] + eos, **limits)["input_ids"] for pair in pairs)]
    return {
        "template": [with_response(tokenizer, text, LABEL) for text in template],
        "text": [with_response(tokenizer, f"{pair['input']} \n## Label: {pair['output']}{eos}", LABEL)
                 for pair in pairs],
        "all": whole,
        "columns": [{name: entry[name] for name in ("input_ids", "labels")} for entry in masked],
    }


def tokens(masked):
    """Ids and labels of a tokenizer elsewhere: some labels in the middle bear no loss, one entry has none."""
    rows = []
    for number, entry in enumerate(masked):
        labels = [-100 if (i + number) % 5 == 0 else label for i, label in enumerate(entry["labels"])]
        rows.append({"input_ids": entry["input_ids"], "labels": labels})
    rows[11]["labels"] = [-100] * len(rows[11]["labels"])
    return rows


def steps_of(tokenizer, entries):
    training.make_collator = lambda pad_id: DataCollatorForSeq2Seq(tokenizer=tokenizer, padding=True)
    rows = [{name: list(entry[name]) for name in ("input_ids", "labels")} for entry in entries]
    return training.train("llama", "float32", "no", ARGUMENTS, {}, rows, tokenizer.pad_token_id)["steps"]


def write_tables():
    """As the package datasets writes them: int64 lists, an Arrow stream; and an Arrow file, which it can read, too. A column
    of times has no JSON and no part in an entry."""
    import pyarrow
    import pyarrow.parquet
    pairs = json.loads((FOLDER / "pairs.json").read_text(encoding="utf-8"))
    table = pyarrow.Table.from_pylist(pairs).append_column(
        "made", pyarrow.array([0] * len(pairs), pyarrow.timestamp("s")))
    pyarrow.parquet.write_table(table, FOLDER / "pairs.parquet", row_group_size=10, compression="zstd")
    lines = (FOLDER / "tokens.jsonl").read_text(encoding="utf-8").splitlines()
    tokens = pyarrow.Table.from_pylist([json.loads(line) for line in lines])
    pyarrow.parquet.write_table(tokens, FOLDER / "tokens.parquet")
    # Columns that rows leave out, and two of one name.
    odd = pyarrow.table({
        "bytes": pyarrow.array([b"a"], pyarrow.binary()),
        "pairs": pyarrow.array([[("a", "b")]], pyarrow.map_(pyarrow.string(), pyarrow.string())),
        "made": pyarrow.array([0], pyarrow.timestamp("us")),
    })
    pyarrow.parquet.write_table(odd, FOLDER / "odd.parquet")
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["output", "output"])
    pyarrow.parquet.write_table(twice, FOLDER / "twice.parquet")
    for name, odd_table in [("odd", odd), ("twice", twice)]:
        with pyarrow.OSFile(str(FOLDER / f"{name}.arrow"), "wb") as file:
            with pyarrow.ipc.new_stream(file, odd_table.schema) as writer:
                writer.write_table(odd_table)
    with pyarrow.OSFile(str(FOLDER / "tokens.arrow"), "wb") as file:
        with pyarrow.ipc.new_stream(file, tokens.schema) as writer:
            writer.write_table(tokens, max_chunksize=7)
    with pyarrow.OSFile(str(FOLDER / "pairs.arrow"), "wb") as file:
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)


# Our own: markers, tools in front, an answer ends with EOS.
CHAT = """{%- if tools %}
{{- '<tools>' + tools | tojson + '</tools>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<' + message.role + '>' }}
{%- if message.content is string %}
{{- message.content | trim }}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- call.function.name + call.function.arguments | tojson }}
{%- endfor %}
{{- eos_token if message.role == 'assistant' else '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<assistant>' }}
{%- endif %}
"""


def make_chats():
    rng = random.Random(23)
    words = "river stone bridge early market copper signal harvest window paper train garden".split()
    pick = lambda low, high: " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))
    chats = []
    for number in range(training.ENTRIES):
        messages = [{"role": "system", "content": pick(1, 3)}] if number % 3 == 0 else []
        for _ in range(1 + number % 3):
            messages.append({"role": "user", "content": pick(1, 4)})
            messages.append({"role": "assistant", "content": pick(1, 6)})
        chats.append({"messages": messages})
    chats[1]["messages"].append({"role": "user", "content": "no answer to this"})
    chats[2]["messages"][0]["content"] = "  naïve café, \"quoted\" \\ 東京 \n"
    chats[4]["messages"][0]["content"] = pick(40, 40)  # no room for an answer
    chats[5] = {"messages": [{"role": "assistant", "content": "I begin."}, {"role": "user", "content": "So?"},
                             {"role": "assistant", "content": "So."}, {"role": "assistant", "content": "And so on."}]}
    chats[7] = {"messages": [{"role": "user", "content": "sum"},
                             {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]},
                             {"role": "tool", "content": "3"}, {"role": "assistant", "content": "It is 3."}],
                "tools": [{"type": "function", "function": {"name": "add", "parameters": {"a": "number"}}}]}
    return chats


def write_chats():
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "tokenizer")
    tokenizer.chat_template = CHAT
    chats = make_chats()
    made = [tokenize_and_apply_chat_template_with_masking(chat, tokenizer=tokenizer, max_seq_length=MAX_LENGTH)
            for chat in chats]
    entries = [{name: entry[name].tolist() for name in ("input_ids", "labels")} for entry in made]
    (FOLDER / "chats.jsonl").write_text("".join(json.dumps(chat, ensure_ascii=False) + "\n" for chat in chats), encoding="utf-8")
    (FOLDER / "chat.jinja").write_text(CHAT, encoding="utf-8")
    golden = {"model_max_length": MAX_LENGTH, "forms": {"chats": {"entries": entries, "steps": steps_of(tokenizer, entries)}}}
    (FOLDER / "chats.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def main():
    if sys.argv[1:] == ["tables"]:
        return write_tables()
    if sys.argv[1:] == ["chats"]:
        return write_chats()
    FOLDER.mkdir(exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "tokenizer")
    pairs = make_pairs()
    (FOLDER / "pairs.json").write_text(json.dumps(pairs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    texts = [{"text": f"{pair['input']} \n## Label: {pair['output']}"} for pair in pairs]
    (FOLDER / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    made = forms(tokenizer, pairs)
    made["tokens"] = tokens(made["columns"])
    (FOLDER / "tokens.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made["tokens"]))
    write_tables()
    golden = {"model_max_length": MAX_LENGTH, "template": TEMPLATE, "response_template": LABEL, "arguments": ARGUMENTS,
              "batch": {name: training.SETTINGS[name] for name in
                        ("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs")},
              "forms": {name: {"entries": entries, "steps": steps_of(tokenizer, entries)}
                        for name, entries in made.items()}}
    (FOLDER / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
