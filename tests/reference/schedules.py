#!/usr/bin/env python3
"""Golden learning-rate schedules: the factor that transformers.get_scheduler puts on the rate, at every step.

Writes optim/schedules.json. Each schedule by name with and without its options, with and without warm-up, two steps
beyond the planned end; and for wrong options what get_scheduler raises. Made with transformers 5.23, torch 2.15:
python schedules.py
"""
import json
from pathlib import Path

import torch
from transformers import TrainingArguments, get_scheduler

LEARNING_RATE = 2e-3

# name, total steps, warm-up steps, options
CASES = [
    ("linear", 23, 5, {}), ("linear", 7, 0, {}), ("linear", 3, 3, {}), ("linear", 1, 1, {}),
    ("cosine", 23, 5, {}), ("cosine", 40, 0, {"num_cycles": 1.75}), ("cosine", 4, 6, {}),
    ("cosine_with_restarts", 31, 4, {}), ("cosine_with_restarts", 31, 4, {"num_cycles": 3}),
    ("cosine_with_min_lr", 23, 5, {"min_lr": 3e-4}), ("cosine_with_min_lr", 23, 0, {"min_lr_rate": 0.2}),
    ("cosine_with_min_lr", 23, 5, {"min_lr_rate": 0.1, "num_cycles": 1.0}),
    ("cosine_warmup_with_min_lr", 23, 5, {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", 23, 5, {"min_lr": 3e-4, "warmup_lr_rate": 0.25}),
    ("cosine_warmup_with_min_lr", 9, 1, {"min_lr": 3e-4, "warmup_lr_rate": 0.25, "num_cycles": 0.25}),
    ("constant", 9, 4, {}), ("constant_with_warmup", 9, 4, {}), ("constant_with_warmup", 9, 0, {}),
    ("polynomial", 23, 5, {}), ("polynomial", 23, 0, {"lr_end": 1e-4, "power": 2.0}),
    ("polynomial", 23, 5, {"lr_end": 0.0, "power": 0.5}),
    ("inverse_sqrt", 30, 6, {}), ("inverse_sqrt", 30, 0, {}), ("inverse_sqrt", 30, 6, {"timescale": 20}),
    ("warmup_stable_decay", 30, 6, {"num_decay_steps": 10}),
    ("warmup_stable_decay", 30, 6, {"num_decay_steps": 10, "num_stable_steps": 8, "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 30, 6, {"num_decay_steps": 12, "warmup_type": "cosine", "decay_type": "linear",
                                    "min_lr_ratio": 0.05}),
    ("warmup_stable_decay", 30, 6, {"num_decay_steps": 12, "warmup_type": "1-sqrt", "decay_type": "1-sqrt"}),
    ("warmup_stable_decay", 30, 6, {"num_decay_steps": 12, "num_cycles": 1.0}),
]

# What Trainer makes of its argument warmup_steps: steps from 1 on, below that a share of the total, rounded up.
WARMUPS = [(1, 0.03), (33, 0.03), (34, 0.03), (100, 0.03), (10, 0.25), (10, 0.0), (10, 3), (10, 12)]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LEARNING_RATE)


def factors(name, total, warmup, options):
    scheduler = get_scheduler(name, optimizer(), warmup, total, scheduler_specific_kwargs=dict(options))
    return [float(scheduler.lr_lambdas[0](step)) for step in range(total + 3)]


def main():
    golden = {
        "learning_rate": LEARNING_RATE,
        "schedules": [dict(name=name, total_steps=total, warmup_steps=warmup, options=options,
                           factors=factors(name, total, warmup, options)) for name, total, warmup, options in CASES],
        "warmups": [dict(total_steps=total, warmup=warmup,
                         steps=TrainingArguments(output_dir="/tmp/none", warmup_steps=warmup).get_warmup_steps(total))
                    for total, warmup in WARMUPS],
    }
    folder = Path(__file__).parent / "optim"
    folder.mkdir(exist_ok=True)
    (folder / "schedules.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
