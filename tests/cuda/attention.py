#!/usr/bin/env python3
"""Which kernels attention takes by step, on a phantom H100 whose libtorch prefers cuDNN's, and how many plans cuDNN builds:
one for each shape and pass that it meets. usage: attention.py BIN [STEPS]

Natural lengths, padded to the longest of a batch, hardly ever repeat. Rows of one length do.
"""
import json
import os
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

BIN = os.path.abspath(sys.argv[1])
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
BENCH = Path(__file__).resolve().parents[2] / "bench/peers"
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 128, "hidden_act": "silu",
         "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "torch_dtype": "bfloat16"}


def kernels_of(folder, padding, checkpointing):
    """[(kernel, batch, length)] in the order of their calls."""
    calls = folder / f"{padding}-{checkpointing}.txt"
    environment = {**os.environ, "LD_PRELOAD": f"{BIN}/libsftbench_phantom.so", "LD_LIBRARY_PATH": f"{BIN}/phantom",
                   "SFTBENCH_ENGINE": f"{BIN}/libsftbench_engine_on_host.so", "SFTBENCH_PHANTOM_ATTENTION": str(calls),
                   "SFTBENCH_PHANTOM": json.dumps({"operators": f"{BIN}/libsftbench_phantom_operators.so"})}
    command = [f"{BIN}/sftbench", "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--model", str(folder / "model"),
               "--weights", "random", "--data", str(folder / "data.jsonl"), "--pretokenized", "--padding", padding,
               "--no-progress", "--format", "json", "--output", str(folder / "results")]
    for name, value in {"number_gpus": 1, "gpu_model": "NVIDIA-H100-80GB-HBM3", "batch_size": 2, "model_max_length": 64,
                        "max_steps": STEPS, "gradient_accumulation_steps": 1, "gradient_checkpointing": checkpointing}.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    result = json.loads(done.stdout)
    assert result["status"] == "valid", result["reason"]
    rows = [line.split() for line in calls.read_text().splitlines()]
    return [(kernel, int(batch), int(length)) for kernel, batch, length in rows], result["environment"]["attention"]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        (folder / "model/config.json").write_text(json.dumps(MODEL))
        subprocess.run([sys.executable, str(BENCH / "random_tokens.py"), str(folder / "data.jsonl"), "--natural", "--length", "64",
                        "--entries", str(2 * STEPS), "--vocabulary", "128"], check=True)
        for padding, checkpointing, expected in (("longest", "false", "flash"), ("max_length", "false", "cudnn"),
                                                 ("max_length", "true", "cudnn")):
            calls, in_use = kernels_of(folder, padding, checkpointing)
            plans = {call for call in calls if call[0].startswith("cudnn")}
            forward = [kernel for kernel, _, _ in calls if not kernel.endswith("backward")]
            each = len(forward) // STEPS  # layers, and those that are computed again
            steps = ["+".join(sorted(set(forward[i:i + each]))) for i in range(0, len(forward), each)]
            print(f"--padding {padding}, recomputed {checkpointing}: {len(set(call[1:] for call in calls))} shapes, "
                  f"{len(plans)} plans of cuDNN")
            for kernels, run in groupby(steps):
                print(f"  {len(list(run))} steps of {kernels}")
            assert len(steps) == STEPS and each >= MODEL["num_hidden_layers"], (len(steps), each)
            assert len(plans) <= 3 and in_use == [expected], (plans, in_use)
            assert (len(plans) > 0) == (expected == "cudnn"), plans


if __name__ == "__main__":
    main()
