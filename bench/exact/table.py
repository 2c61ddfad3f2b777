#!/usr/bin/env python3
"""Prints a table of configurations: memory by arithmetic beside that of a rehearsal on the phantom device.

  bench/exact/table.py build/cuda/bin/sftbench [WORD] > table.md    WORD: the rows alone whose model or method begins so
"""
import json
import subprocess
import sys

FULL, LORA = "finetune_full_benchmark-v1.0.0", "finetune_lora_benchmark-v1.0.0"
GPTQ, PROMPT = "finetune_gptq-lora_benchmark-v1.0.0", "finetune_pt_benchmark-v1.0.0"
# experiment, model, GPUs, batch size of all, length, further properties
CASES = [
    (FULL, "smollm2-135m", 1, 4, 1024, {}),
    (FULL, "smollm2-135m", 1, 4, 1024, {"gradient_checkpointing": "false"}),
    (FULL, "smollm2-135m", 1, 4, 1024, {"optim": "adamw_8bit"}),
    (FULL, "smollm2-135m", 1, 4, 1024, {"optim": "paged_adamw_8bit"}),
    (FULL, "smollm2-135m", 8, 8, 1024, {"distributed_backend": "FSDP"}),
    (FULL, "smollm2-135m", 8, 8, 1024, {"distributed_backend": "DDP"}),
    (FULL, "granite-3.1-2b", 1, 4, 2048, {}),
    (FULL, "granite-3.1-2b", 1, 4, 2048, {"gradient_checkpointing": "false"}),
    (FULL, "granite-3.1-2b", 8, 8, 2048, {"distributed_backend": "FSDP"}),
    (FULL, "granite-3.1-2b", 8, 8, 2048, {"distributed_backend": "FSDP", "gradient_checkpointing": "false"}),
    (FULL, "llama3.1-8b", 1, 1, 1024, {"optim": "adamw_8bit"}),
    (FULL, "llama3.1-8b", 8, 8, 4096, {"distributed_backend": "FSDP"}),
    (FULL, "llama3.1-8b", 8, 32, 4096, {"distributed_backend": "FSDP"}),
    (LORA, "granite-3.1-2b", 1, 4, 2048, {}),
    (LORA, "llama3.1-8b", 1, 4, 4096, {}),
    (LORA, "llama3.1-8b", 1, 1, 4096, {"gradient_checkpointing": "false"}),
    (LORA, "llama3.1-8b", 8, 32, 4096, {"distributed_backend": "FSDP"}),
    (PROMPT, "granite-3.1-2b", 1, 4, 2048, {}),
    (PROMPT, "llama3.1-8b", 1, 4, 4096, {}),
    (GPTQ, "llama3.1-8b", 1, 4, 4096, {}),
]
# Mixtures of experts: each expert gets as many tokens as every other.
CASES += [
    (FULL, "granite-3.0-1b-a400m-base", 1, 4, 2048, {}),
    (FULL, "granite-3.0-1b-a400m-base", 1, 4, 2048, {"gradient_checkpointing": "false"}),
    (FULL, "granite-3.0-1b-a400m-base", 8, 8, 2048, {"distributed_backend": "FSDP"}),
    (LORA, "granite-3.0-1b-a400m-base", 1, 4, 2048, {}),
    (FULL, "mixtral-8x7b-instruct-v0.1", 8, 8, 2048, {"distributed_backend": "FSDP"}),
    (LORA, "mixtral-8x7b-instruct-v0.1", 8, 8, 2048, {"distributed_backend": "FSDP"}),
    (FULL, "granite-4.0-h-tiny", 8, 8, 2048, {"distributed_backend": "FSDP"}),
]
# QLoRA, and a model of each family that came later.
QLORA, LINEARS = "finetune_qlora_benchmark-v1.0.0", {"target_modules": "all-linear"}
CASES += [(QLORA, model, 1, 4, 2048, more) for model in ("llama3.2-1b", "qwen2.5-1.5b", "gemma3-1b", "gemma2-2b")
          for more in (LINEARS, {**LINEARS, "gradient_checkpointing": "false"})]
CASES += [(QLORA, "llama3.1-8b", 1, 4, 4096, LINEARS), (QLORA, "llama3.1-8b", 8, 8, 4096, LINEARS)]
CASES += [(experiment, model, 1, 4, 1024, more)
          for model in ("gemma3-1b", "gemma2-2b", "phi4-mini", "smollm3-3b", "olmo2-1b", "gpt2", "pythia-410m",
                        "starcoder2-3b")
          for experiment, more in ((FULL, {}), (LORA, LINEARS), (FULL, {"gradient_checkpointing": "false"}))]
# Rows of 131072 on 8 GPUs: context_parallel, and tiles of the MLPs.
LONG = [(1, 1), (2, 1), (4, 1), (8, 1), (1, 8), (1, 32), (2, 16), (8, 8)]
CASES += [(FULL, "llama3.1-8b", 8, 8 // ranks, 131072,
           {"distributed_backend": "FSDP", "gradient_accumulation_steps": "1", "context_parallel": str(ranks),
            "mlp_tiles": str(tiles)}) for ranks, tiles in LONG]


def predict(program, experiment, model, gpus, batch, length, more):
    settings = {"model_name": model, "number_gpus": gpus, "batch_size": batch, "model_max_length": length,
                "gpu_model": "NVIDIA-H100-80GB-HBM3", **more}
    command = [program, "predict", "--experiment", experiment, "--exact", "--format", "json", "--padding",
               "max_length"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:  # exit 3: it does not fit, and the answer is there
        return None, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout), ""


def main():
    gib = 2**30
    print("| method | model | GPUs | batch x length | further | arithmetic GiB | exact GiB | error % | reserved GiB "
          "| launches |\n|---|---|--:|--:|---|--:|--:|--:|--:|--:|")
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    for experiment, model, gpus, batch, length, more in CASES:
        if not (model.startswith(word) or experiment.startswith(f"finetune_{word}")):
            continue
        found, error = predict(sys.argv[1], experiment, model, gpus, batch, length, more)
        head = (f"| {experiment.split('_')[1]} | {model} | {gpus} | {batch} x {length} | "
                f"{', '.join(f'{name} {value}' for name, value in more.items())} |")
        if found is None:
            print(f"{head} {error} |", flush=True)
            continue
        exact, memory = found["exact"], found["memory_bytes"]
        arithmetic = memory["total"]
        peak = exact["allocated_peak_bytes"]
        print(f"{head} {arithmetic / gib:.2f} | {peak / gib:.2f} | {100 * (arithmetic / peak - 1):+.1f} | "
              f"{exact['reserved_peak_bytes'] / gib:.2f} | {exact['launches_per_step']} |", flush=True)


if __name__ == "__main__":
    main()
