#!/usr/bin/env python3
"""training_logs.jsonl as the real FileLoggingCallback of fms-hf-tuning writes it under the real Trainer.

Each case is a run of a tiny linear model: the losses of all steps and the evaluations, as Trainer's history has them,
and the lines that the callback wrote with another logging strategy over the same steps.

Made with transformers 5.23, torch 2.15 and fms-hf-tuning v2.8.2, a checkout of which is on the path:
    PYTHONPATH=fms-hf-tuning python training_logs.py
"""
import importlib.util
import json
import pathlib
import sys
import tempfile
import types

import torch
from transformers import Trainer, TrainingArguments

HERE = pathlib.Path(__file__).parent


def real_callback():
    """The callback's own file, without the trackers beside it, which need packages of theirs."""
    path = next(pathlib.Path(p) / "tuning/trackers/filelogging_tracker.py" for p in sys.path
                if (pathlib.Path(p) / "tuning/trackers/filelogging_tracker.py").is_file())
    package = types.ModuleType("trackers")
    package.__path__ = [str(path.parent)]
    base = types.ModuleType("trackers.tracker")
    base.Tracker = object
    config = types.ModuleType("tuning.config.tracker_configs")
    config.TrackerConfigs = object
    sys.modules.update({"trackers": package, "trackers.tracker": base, "tuning": types.ModuleType("tuning"),
                        "tuning.config": types.ModuleType("tuning.config"), "tuning.config.tracker_configs": config})
    spec = importlib.util.spec_from_file_location("trackers.filelogging_tracker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FileLoggingCallback(logs_filename="training_logs.jsonl")


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x, labels=None):
        return {"loss": ((x @ self.weight - labels) ** 2).mean()}


class Points(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        random = torch.Generator().manual_seed(seed)
        self.x, self.y = torch.randn(count, 3, generator=random), torch.randn(count, generator=random)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.y[index]}


def train(folder, callbacks, entries=14, **arguments):
    torch.manual_seed(42)
    trainer = Trainer(model=Line(), train_dataset=Points(entries, 1), eval_dataset=Points(5, 2), callbacks=callbacks,
                      args=TrainingArguments(output_dir=folder, per_device_train_batch_size=2, learning_rate=0.1,
                                             use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
                                             logging_nan_inf_filter=False, **arguments))
    trainer.train()
    return trainer.state.log_history


def case(name, logging, **arguments):
    with tempfile.TemporaryDirectory() as folder:
        every = [entry for entry in train(folder, [], logging_strategy="steps", logging_steps=1, **arguments)
                 if "loss" in entry or "eval_loss" in entry]
    with tempfile.TemporaryDirectory() as folder:
        train(folder, [real_callback()], **logging, **arguments)
        path = pathlib.Path(folder) / "training_logs.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    events = [{"step": entry["step"], "epoch": entry["epoch"],
               **{key: entry[key] for key in ("loss", "eval_loss") if key in entry}} for entry in every]
    return {"name": name, "strategy": logging["logging_strategy"], "steps": logging.get("logging_steps", 500),
            "events": events, "lines": lines}


def main():
    epoch, two = {"logging_strategy": "epoch"}, {"logging_strategy": "steps", "logging_steps": 2}
    cases = [case("epochs", epoch, num_train_epochs=3, gradient_accumulation_steps=2),
             case("epoch_cut_short", epoch, max_steps=10),
             case("steps", two, max_steps=9),
             case("evaluated", epoch, num_train_epochs=2, eval_strategy="epoch"),
             case("evaluated_by_steps", two, max_steps=9, eval_strategy="steps", eval_steps=3),
             case("epochs_between_two_decimals", {"logging_strategy": "steps", "logging_steps": 1}, entries=16,
                  max_steps=8),
             case("no", {"logging_strategy": "no"}, max_steps=9, eval_strategy="epoch")]
    (HERE / "training_logs.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
