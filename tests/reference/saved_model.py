#!/usr/bin/env python3
"""Loads with transformers and peft what `sftbench run` has saved, and compares losses.

    python saved_model.py BUILD/bin/sftbench

Trains the tiny models of training/, whole, by LoRA and by prompt tuning, gptq/llama by LoRA, and text models beside a
vision tower, whole and by LoRA, for four steps of all their entries, by one process and by two ranks under FULL_SHARD, with a checkpoint after each. The loss of a step is that
of the parameters in the checkpoint before it: transformers (and peft, over the model that was trained), given that
folder, has to come to the same. Prints a line for each model, and exits with 1 when one differs by more than float32's
rounding.

Made for transformers 5.24, peft 0.20, torch 2.15.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import (AutoConfig, AutoModelForCausalLM, AutoTokenizer, Gemma3Config, Gemma3ForConditionalGeneration,
                          LlamaConfig, Mistral3Config, Mistral3ForConditionalGeneration)

from gptq import FOLDER as GPTQ
from gptq import dequantize, zeros_from_v1
from training import FOLDER, encode, make_collator, make_texts

TOLERANCE = 1e-6  # the order of sums in float32, relative
PROMPT = {"virtual_tokens": 5, "init": "TEXT", "init_text": "Classify the letter:"}
LORA = {"rank": 4, "alpha": 16.0, "dropout": 0.0, "target_modules": ["q_proj", "v_proj"]}
TOWER = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8,
         "patch_size": 4}
TEXT_PARTS = {"gemma3-vision": (Gemma3ForConditionalGeneration, Gemma3Config, "gemma3", TOWER),
              "mistral3-vision": (Mistral3ForConditionalGeneration, Mistral3Config, "mistral", {**TOWER, "model_type": "pixtral"})}
MADE = Path(tempfile.mkdtemp())


def weights_of(model, tuning):
    if model not in TEXT_PARTS:
        return GPTQ / model if tuning == "gptq-lora" else FOLDER / model
    if not (MADE / model).exists():
        cls, config, text, tower = TEXT_PARTS[model]
        torch.manual_seed(1)
        text = AutoConfig.from_pretrained(FOLDER / text)
        cls(config(text_config=text, vision_config=tower, tie_word_embeddings=text.tie_word_embeddings)).save_pretrained(MADE / model)
    return MADE / model


def job_for(sftbench, model, tuning, ranks, folder):
    command = [sftbench, "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random", "--dry-run"]
    for setting in ("model_name=smollm2-135m", "number_gpus=0", "model_max_length=48", "batch_size=1", "max_steps=4",
                    "dataset_id=news-tokens-16384plus-entries-4096"):
        command += ["--set", setting]
    job = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    weights = weights_of(model, tuning)
    config = json.loads((weights / "config.json").read_text())
    job["model"] = {"name": model, "hf_config": config, "weights_directory": str(weights),
                    "tokenizer_directory": str(FOLDER / "tokenizer")}
    job["tuning"] = tuning
    job["lora"].update(LORA)
    job["prompt"].update(PROMPT)
    job["data"].update(path=str(FOLDER / "dataset.jsonl"), model_max_length=48, token_cache_directory="")
    job["batches"].update(per_device_batch_size=26 // ranks, gradient_accumulation_steps=1, max_steps=4)
    job["precision"].update(torch_dtype="float32", autocast="no")
    job["optimizer"].update(name="adamw_torch", learning_rate=1e-3)
    job["device"].update(kind="cpu", ranks=ranks, nodes=1, threads=1)
    job["parallel"].update(strategy="FULL_SHARD" if ranks > 1 else "DDP", state_dict_type="FULL_STATE_DICT")
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def train(sftbench, job, folder):
    command = [sftbench, "run", "--job", str(job), "-o", str(folder / "results"), "--format", "json",
               "--save-strategy", "steps", "--save-steps", "1", "--checkpoint-dir", str(folder / "checkpoints"),
               "--save-model-dir", str(folder / "model")]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stderr}")
    return json.loads(result.stdout)["extra"]["loss"]


def loss_of(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.float()
    logits = logits[:, -batch["labels"].shape[1]:]  # virtual tokens stand in front
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()).item()


def dequantized(folder):
    """The quantized model with linears that hold in float32 what its packed weights stand for."""
    config = json.loads((folder / "config.json").read_text())
    bits = config.pop("quantization_config")["bits"]
    model = AutoModelForCausalLM.from_config(LlamaConfig(**config))
    stored = load_file(folder / "model.safetensors")
    for name in [key.removesuffix(".qweight") for key in stored if key.endswith(".qweight")]:
        linear = {key: stored.pop(f"{name}.{key}") for key in ("qweight", "qzeros", "scales", "g_idx")}
        linear.update(qzeros=zeros_from_v1(linear["qzeros"], bits), scales=linear["scales"].float())
        stored[f"{name}.weight"] = dequantize(linear, bits).t().contiguous()
    missing, unexpected = model.load_state_dict(stored, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)  # which is the embedding
    model.tie_weights()
    return model


def load(folder, model, tuning):
    cls = TEXT_PARTS[model][0] if model in TEXT_PARTS else AutoModelForCausalLM
    if tuning == "full":
        return cls.from_pretrained(folder)
    if tuning == "gptq-lora":
        return PeftModel.from_pretrained(dequantized(weights_of(model, tuning)), folder)
    return PeftModel.from_pretrained(cls.from_pretrained(weights_of(model, tuning)), folder)


@torch.no_grad()
def compare(sftbench, model, tuning, ranks):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        losses = train(sftbench, job_for(sftbench, model, tuning, ranks, folder), folder)
        # The first step's rate is 0, that of a warm-up.
        steps_differ = all(abs(a - b) / b > 10 * TOLERANCE for a, b in zip(losses[1:], losses[2:]))
        assert steps_differ, f"the checkpoint of another step would do as well: {losses}"
        tokenizer = AutoTokenizer.from_pretrained(folder / "model")
        batch = make_collator(tokenizer.pad_token_id)([encode(tokenizer, text) for text in make_texts()])
        worst = 0.0
        for step in (1, 2, 3):
            loaded = load(folder / "checkpoints" / f"checkpoint-{step}", model, tuning)
            expected = loss_of(loaded, batch)
            worst = max(worst, abs(losses[step] - expected) / expected)
        final = load(folder / "model", model, tuning).state_dict()
        last = load(folder / "checkpoints" / "checkpoint-4", model, tuning).state_dict()
        same = final.keys() == last.keys() and all(torch.equal(final[k], last[k]) for k in final)
    verdict = "ok" if worst < TOLERANCE and same else "DIFFERENT"
    print(f"{model:15} {tuning:9} {ranks} rank{'s' if ranks > 1 else ' '}  loss of steps 2 to 4 within {worst:.1e}  "
          f"{verdict}", flush=True)
    return verdict == "ok"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cases = [(model, tuning, ranks) for model in ("llama", "llama_all", "mistral", "granite")
             for tuning in ("full", "lora", "pt") for ranks in (1, 2)]
    cases += [("llama", "gptq-lora", ranks) for ranks in (1, 2)]
    cases += [(model, tuning, ranks) for model in TEXT_PARTS for tuning in ("full", "lora") for ranks in (1, 2)]
    equal = all([compare(sys.argv[1], *case) for case in cases])
    shutil.rmtree(MADE)
    sys.exit(0 if equal else 1)
