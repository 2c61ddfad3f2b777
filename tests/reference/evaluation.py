#!/usr/bin/env python3
"""Evaluation on held-out entries by the real Hugging Face Trainer, between the steps of the runs of training.py.

Writes evaluation/: entries that are not trained on, and per case what Trainer's evaluate() gave after which step. Trainer
weights each micro-batch's mean by its entries. The mean over all positions that bear loss, of which perplexity is the
exponential, is summed here, entry by entry, from the model's logits.

Made with transformers 5.23, torch 2.15:  python evaluation.py
"""
import json
import random
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, TrainerCallback

import training

FOLDER = Path(__file__).parent / "evaluation"
HELD_OUT, BATCH = 11, 4

# name: case of training.py, when it is evaluated
CASES = {
    "llama-steps": ("llama-float32", {"eval_strategy": "steps", "eval_steps": 3}),
    "llama-epoch": ("llama-float32", {"eval_strategy": "epoch"}),
    "llama-autocast_bf16": ("llama-autocast_bf16", {"eval_strategy": "steps", "eval_steps": 5}),
    "mixtral-balanced": ("mixtral-balanced-float32", {"eval_strategy": "steps", "eval_steps": 5}),
    "granitemoehybrid-balanced": ("granitemoehybrid-balanced-float32", {"eval_strategy": "steps", "eval_steps": 5}),
    "gpt_oss": ("gpt_oss-float32", {"eval_strategy": "steps", "eval_steps": 5}),
}


def make_texts():
    rng = random.Random(29)
    words = "winter captain valley engine silver harvest copper bridge signal early".split()
    pick = lambda low, high: " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))
    texts = [f"### Input:\n{pick(2, 6)}\n{training.TEMPLATE} {pick(3, 30)}" for _ in range(HELD_OUT)]
    texts[2] = f"### Input:\n{pick(4, 6)} without an answer"
    return texts


class Watch(TrainerCallback):
    def __init__(self, entries):
        self.entries, self.evaluations = entries, []

    def on_evaluate(self, args, state, control, metrics=None, model=None, **kwargs):
        model.eval()
        loss = tokens = 0
        for entry in self.entries:
            ids, labels = (torch.tensor([entry[name]]) for name in ("input_ids", "labels"))
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
                logits = model(ids).logits.float()
            found = torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], reduction="none")
            loss, tokens = loss + found.double().sum().item(), tokens + (labels[0, 1:] != -100).sum().item()
        model.train()
        self.evaluations.append({"step": state.global_step, "epoch": state.epoch, "loss": metrics["eval_loss"],
                                 "token_loss": loss / tokens, "entries": len(self.entries), "tokens": tokens})


def main():
    FOLDER.mkdir(exist_ok=True)
    texts = make_texts()
    (FOLDER / "dataset.jsonl").write_text("".join(json.dumps({"output": text}) + "\n" for text in texts))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(training.FOLDER / "tokenizer")
    trained_on = [json.loads(line)["output"] for line in (training.FOLDER / "dataset.jsonl").read_text().splitlines()]
    entries, held_out = ([training.encode(tokenizer, text) for text in part] for part in (trained_on, texts))
    for name, (case, when) in CASES.items():
        model, dtype, autocast, settings, config = training.CASES[case]
        watch = Watch(held_out)
        settings = {**settings, **when, "per_device_eval_batch_size": BATCH}
        training.train(model, dtype, autocast, settings, config, entries, tokenizer.pad_token_id, held_out, watch)
        golden = {"case": case, "strategy": when["eval_strategy"], "steps": when.get("eval_steps", 500),
                  "batch": BATCH, "evaluations": watch.evaluations}
        (FOLDER / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
