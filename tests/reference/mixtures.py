#!/usr/bin/env python3
"""Ten steps of Trainer on sets of several forms, mixed and split by the package datasets as fms-hf-tuning calls it.

Writes own_data/mixtures.json. The sets are those of own_data.py, with its ids and labels: `template` of which a quarter
is evaluated, `tokens`, `chats`.

Made with transformers 5.23, torch 2.15, datasets 4:  python mixtures.py
"""
import json
from pathlib import Path

import datasets
from transformers import AutoTokenizer, DataCollatorForSeq2Seq

import evaluation
import training

FOLDER = Path(__file__).parent / "own_data"
SEED, SPLIT, SHARES = 66, 0.25, [0.5, 0.2, 0.3]
STRATEGIES = ["first_exhausted", "all_exhausted", None]  # None: no shares, one set behind the other


def main():
    golden = json.loads((FOLDER / "golden.json").read_text())
    chats = json.loads((FOLDER / "chats.json").read_text())
    arguments = golden["arguments"]
    tokenizer = AutoTokenizer.from_pretrained(training.FOLDER / "tokenizer")
    training.make_collator = lambda pad_id: DataCollatorForSeq2Seq(tokenizer=tokenizer, padding=True)
    sets = [datasets.Dataset.from_list(forms["forms"][name]["entries"])
            for name, forms in (("template", golden), ("tokens", golden), ("chats", chats))]
    split = sets[0].train_test_split(train_size=1 - SPLIT, test_size=SPLIT, shuffle=True, seed=SEED)
    sets[0], held_out = split["train"], list(split["test"])
    results = {}
    for strategy in STRATEGIES:
        mixed = datasets.concatenate_datasets(sets) if strategy is None else datasets.interleave_datasets(
            sets, probabilities=SHARES, seed=SEED, stopping_strategy=strategy)
        watch = evaluation.Watch(held_out)
        settings = {**arguments, "max_steps": 10, "eval_strategy": "steps", "eval_steps": 5, "per_device_eval_batch_size": 3}
        run = training.train("llama", "float32", "no", settings, {}, list(mixed), tokenizer.pad_token_id, held_out, watch)
        results[strategy or "concatenated"] = {"entries": len(mixed), "steps": run["steps"], "evaluations": watch.evaluations}
    made = {"seed": SEED, "split": SPLIT, "shares": SHARES, "eval_steps": 5, "eval_batch": 3, "mixtures": results}
    (FOLDER / "mixtures.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
