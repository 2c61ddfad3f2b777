#!/usr/bin/env python3
"""`sftbench run` beside Hugging Face Trainer on this machine: equal weights and tokens, processes in turn.

  bench/peers/compare.py PYTHON SFTBENCH [--model smollm2-135m] [--layers N] [--families [WORD...]]
                         [--dtype float32 bfloat16] [--method full lora qlora pt] [--length 512] [--pairs 5] [--steps 4]
                         [--checkpointing] [--experts eager]

PYTHON is an interpreter that has torch, transformers and peft, and bitsandbytes for qlora, SFTBENCH the program as users start it. A row of the table
is one model, dtype and method: batch 1 of a full row, AdamW (fused), clipping, SDPA attention. LoRA is of rank 16 on four
projections. Weights are random and saved once, so that the losses of both must agree.

A step's time is the median of a process without its first step. "faster" is Trainer's time over ours: the median of the
pairs, and the range of all, which holds the true median in 94 of 100 times where there are five pairs. "to the first step"
is from the start of the process to the beginning of its first step, files in the page cache. "of the limit" is the least
time that limit.py finds on this machine beside each pair, over ours. --families compares a few layers of each family, which
have no limit. A model that reads images has one picture and a text a step (random_images.py), and its steps contain the
processor's work. Trainer's attention to soft-capped scores is the eager one, as SDPA has no cap. --experts is Trainer's
experts_implementation.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The first loss of equal weights and tokens. Sums in bfloat16 are rounded in another order.
TOLERANCE = {"float32": 1e-5, "bfloat16": 5e-3}
# A documented model, and what is changed so that a few of its layers train within minutes.
FAMILIES = {
    "granitemoe, 4 layers of granite-3.0-1b-a400m": ("granite-3.0-1b-a400m-base", {"num_hidden_layers": 4}),
    "granitemoehybrid, 3 Mamba-2 and 1 attention of granite-4.0-h-tiny": (
        "granite-4.0-h-tiny", {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"]}),
    "granitemoehybrid without experts, 4 layers of granite-4.0-h-micro": (
        "granite-4.0-h-micro", {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"]}),
    "gpt_bigcode, 4 layers of 2048": (
        "granite-20b-v2", {"n_layer": 4, "n_embd": 2048, "n_inner": 8192, "n_head": 16, "n_positions": 8192}),
    "llama, 4 layers of llama3.2-1b": ("llama3.2-1b", {"num_hidden_layers": 4}),
    # Its whole vocabulary would be most of the work.
    "gemma2, soft-capped, 4 layers and 32768 tokens of gemma2-2b": (
        "gemma2-2b", {"num_hidden_layers": 4, "vocab_size": 32768}),
    "gemma3_text, 2 layers of gemma3-1b": (
        "gemma3-1b", {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}),
    # The placeholder is that of the tokenizer that random_weights.py copies.
    "idefics3, images, 2 tower and 5 text layers of smolvlm-256m": (
        "smolvlm-256m-instruct",
        {"vision_config": {"num_hidden_layers": 2}, "text_config": {"num_hidden_layers": 5}, "image_token_id": 384}),
}
TOKENS = ["--pretokenized"]
IMAGES = ["--text-field", "text", "--set", "dataset_image_field=images", "--set", "remove_unused_columns=false",
          "--set", "dataset_kwargs_skip_prepare_dataset=true"]


def run(command, folder):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def changed(config, changes):
    """Also inside the configurations of a model's parts."""
    return {**config, **{key: changed(config[key], value) if isinstance(value, dict) else value
                         for key, value in changes.items()}}


def shapes_of(options):
    """Title, model of the list, what is changed of its configuration."""
    if options.families is None:
        yield options.model, options.model, {"num_hidden_layers": options.layers} if options.layers else {}
        return
    for title, (model, changes) in FAMILIES.items():
        if not options.families or any(word in title for word in options.families):
            yield title, model, changes


class Comparison:
    """One row of the table, in a folder of its own."""

    def __init__(self, options, folder, model, changes, dtype, method):
        self.options, self.folder, self.model, self.dtype, self.method = options, Path(folder), model, dtype, method
        self.prepare_model(changes)
        self.job = self.folder / "job.json"
        self.job.write_text(self.sftbench("--dry-run"))

    def sftbench(self, *more):
        options = self.options
        sets = {"number_gpus": 0, "batch_size": 1, "gradient_accumulation_steps": 1, "torch_dtype": self.dtype,
                "gradient_checkpointing": str(options.checkpointing).lower(), "max_steps": options.steps,
                "optim": "adamw_torch_fused", "model_max_length": options.length}
        adapters = ["--set", "r=16", "--lora-targets", "q_proj,k_proj,v_proj,o_proj"] if "lora" in self.method else []
        method = ([] if self.method == "full" else ["--method", self.method]) + adapters
        command = [options.program, "run", "--model", self.folder / "model", "--data", *self.data, "--no-progress",
                   *method, *more]
        for key, value in sets.items():
            command += ["--set", f"{key}={value}"]
        return run(command, self.folder)

    def prepare_model(self, changes):
        shown = json.loads(run([self.options.program, "run", "--dry-run", "--weights", "random", "--model", self.model,
                                "--set", "number_gpus=0"], self.folder))
        config = changed(shown["model"]["hf_config"], changes)
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):  # random tokens may be any
            config.pop(key, None)
        (self.folder / "config.json").write_text(json.dumps(config))
        run([self.options.python, HERE / "random_weights.py", self.folder / "config.json", self.folder / "model"], self.folder)
        if "vision_config" in config:
            self.data = [self.folder / "images.parquet", *IMAGES]
            make = ["random_images.py", self.data[0]]
        else:
            self.data = [self.folder / "tokens.jsonl", *TOKENS]
            make = ["random_tokens.py", self.data[0], "--length", self.options.length,
                    "--vocabulary", config["vocab_size"]]
        run([self.options.python, HERE / make[0], *make[1:], "--entries", self.options.steps], self.folder)
        self.has_limit = config["model_type"] == "llama"

    def ours(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as results:
            self.sftbench("-o", results)
            measurement = json.loads(next(Path(results).rglob("*.json")).read_text())
        if measurement["status"] != "valid":
            sys.exit(f"{measurement['status']}: {measurement['reason']}")
        extra = measurement["extra"]
        return Process(extra["step_seconds"], extra["startup_seconds"]["first_step"],
                       max(extra["memory_bytes"]["host_peak_rss"]), extra["loss"])

    def theirs(self):
        experts = ["--experts", self.options.experts] if self.options.experts else []
        result = json.loads(run([self.options.python, HERE / "hf_trainer.py", "--job", self.job, *experts],
                                self.folder).strip().splitlines()[-1])
        return Process(result["step_seconds"], result["first_step_process_age_s"], result["peak_rss_bytes"], result["losses"])

    def limit_s(self):
        if not self.has_limit or self.method in ("qlora", "pt"):
            return None
        return json.loads(run([self.options.python, HERE / "limit.py", self.job], self.folder))["seconds"]


class Process:
    def __init__(self, step_seconds, age_s, peak_bytes, losses):
        self.step_s = statistics.median(step_seconds[1:])
        self.start_s = age_s - step_seconds[0]
        self.peak_bytes, self.losses = peak_bytes, losses


def require_equal_work(mine, other, dtype):
    differences = [abs(a - b) / abs(b) for a, b in zip(mine.losses, other.losses, strict=True)]
    if differences[0] > TOLERANCE[dtype]:
        sys.exit(f"first losses {mine.losses[0]} and {other.losses[0]}: this is not the same work")
    return max(differences)


def row_of(comparison, pairs):
    comparison.ours(), comparison.theirs()  # files come into the page cache
    mine, others, limits, differences = [], [], [], []
    for _ in range(pairs):
        mine.append(comparison.ours())
        others.append(comparison.theirs())
        limits.append(comparison.limit_s())
        differences.append(require_equal_work(mine[-1], others[-1], comparison.dtype))

    def both(figure):
        return [statistics.median(getattr(process, figure) for process in side) for side in (mine, others)]

    def ratios(figure, over):
        return sorted(getattr(a, figure) / getattr(b, figure) for a, b in zip(*over))

    speed, start = ratios("step_s", (others, mine)), ratios("start_s", (mine, others))
    (step, other_step), (begin, other_begin), (peak, other_peak) = both("step_s"), both("start_s"), both("peak_bytes")
    share = "-"
    if limits[0] is not None:
        share = f"{statistics.median(limit / process.step_s for limit, process in zip(limits, mine)):.2f}"
    return (f"{step:.3f} | {other_step:.3f} | {statistics.median(speed):.2f} | {speed[0]:.2f} to {speed[-1]:.2f} | {share} | "
            f"{begin:.2f} | {other_begin:.2f} | {statistics.median(start):.2f} | {peak / 2**20:.0f} | {peak / other_peak:.2f} | "
            f"{max(differences):.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("program", metavar="SFTBENCH", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--families", nargs="*")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"], choices=["bfloat16", "float32"])
    parser.add_argument("--method", nargs="+", default=["full"], choices=["full", "lora", "qlora", "pt"])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--experts")
    options = parser.parse_args()
    versions = run([options.python, "-c", "import peft, torch, transformers\nprint(f'torch {torch.__version__}, transformers "
                    "{transformers.__version__}, peft {peft.__version__}, {torch.get_num_threads()} threads')"], HERE).strip()
    print(f"batch 1x{options.length}, {options.pairs} pairs of processes, Trainer on {versions}\n")
    print("| model | dtype | method | sftbench s | Trainer s | faster | of all pairs | of the limit | to the first step s | "
          "Trainer s | share | peak MiB | share | losses differ |\n|---|---|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|",
          flush=True)
    for title, model, changes in shapes_of(options):
        for dtype in options.dtype:
            for method in options.method:
                with tempfile.TemporaryDirectory() as folder:
                    comparison = Comparison(options, folder, model, changes, dtype, method)
                    print(f"| {title} | {dtype} | {method} | {row_of(comparison, options.pairs)} |", flush=True)


if __name__ == "__main__":
    main()
