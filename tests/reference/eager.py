#!/usr/bin/env python3
"""Golden files for tests/model/kernel_choice_test.cpp: what Hugging Face computes with every kernel the plain one.

usage: python3 tests/reference/eager.py

Runs checkpoints of models.py under attn_implementation="eager" on the inputs of their golden.safetensors and writes
eager/<case>.safetensors with
  loss, grad.<parameter name>              in float32
  bf16.loss, bf16.logits, bf16.grad.<...>  loaded in bfloat16; gradients as they are, logits at real positions only
The files here: transformers 5.23.0, torch 2.15.0.
"""
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

FOLDER = Path(__file__).resolve().parent
CASES = ("llama_every_option", "mistral_sliding_window", "granite_every_option")


def run(folder, dtype, batch):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    assert model.config._attn_implementation == "eager"
    out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"],
                use_cache=False)
    out.loss.backward()
    gradients = {"grad." + name: parameter.grad for name, parameter in model.named_parameters()}
    return out.loss.detach().float().reshape(1), out.logits.detach()[batch["attention_mask"] == 1], gradients


def main():
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    torch.set_num_threads(1)
    (FOLDER / "eager").mkdir(exist_ok=True)
    for name in CASES:
        folder = FOLDER / "models" / name
        batch = load_file(folder / "golden.safetensors")
        golden = {}
        golden["loss"], _, gradients = run(folder, torch.float32, batch)
        golden |= gradients
        golden["bf16.loss"], golden["bf16.logits"], gradients = run(folder, torch.bfloat16, batch)
        golden |= {"bf16." + key: value for key, value in gradients.items()}
        save_file({key: value.contiguous() for key, value in golden.items()}, FOLDER / "eager" / f"{name}.safetensors")
        print(f"{name}: loss {golden['loss'].item():.6f}, bf16 {golden['bf16.loss'].item():.6f}")


if __name__ == "__main__":
    main()
