#!/usr/bin/env python3
"""Golden NF4: what bitsandbytes makes of weights, and QLoRA by transformers, peft and bitsandbytes.

Writes nf4/quantize.safetensors: of each weight of WEIGHTS the tensors of its form in NF4 with double quantization (codes,
absmax, nested_absmax, nested_offset), and of some `dequantized`.

Writes nf4/saved: a Llama of one layer as transformers saves it with BitsAndBytesConfig, and logits of it.

Writes nf4/golden.json: what Trainer logged over ten steps in float32 of the Llama of training.py, whose
linears went through NF4, beside the initial adapters of adapters/llama-lora_all.

Made with bitsandbytes 0.50, peft 0.21, transformers 5.24, torch 2.15:  python nf4.py
"""
import shutil
import tempfile
from pathlib import Path

import bitsandbytes
import bitsandbytes.functional as F
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

from adapters import FOLDER as ADAPTERS
from gptq import write_golden
from training import FOLDER as TRAINING

FOLDER = Path(__file__).parent / "nf4"


def weight(rows, columns, dtype=torch.float32):
    """What tests make again: whole numbers of eleven bits at most, other ones in each block, of which 8192th parts."""
    i = torch.arange(rows * columns)
    return (((i * i * 31 + i * 7919) % 255 - 127) * (1 + i // 64 % 13) / 8192).to(dtype).view(rows, columns)


def with_outlier(values):
    values[2, 17] = 4.0  # all else of its block is near the middle codes
    values[3] = 0
    return values


WEIGHTS = {"odd": weight(17, 81), "rows": with_outlier(weight(24, 96)), "blocks": weight(258, 64),
           "bfloat16": with_outlier(weight(16, 128, torch.bfloat16))}


def write_quantized():
    tensors = {}
    for name, values in WEIGHTS.items():
        codes, state = F.quantize_4bit(values, blocksize=64, quant_type="nf4", compress_statistics=True)
        tensors.update({f"{name}.absmax": state.absmax, f"{name}.nested_absmax": state.state2.absmax,
                        f"{name}.nested_offset": state.offset.view(1)})
        if name != "blocks":
            tensors[f"{name}.codes"] = codes.view(-1)
        if name in ("odd", "bfloat16"):
            tensors[f"{name}.dequantized"] = F.dequantize_4bit(codes, state)
    save_file(tensors, FOLDER / "quantize.safetensors")


def load(folder, **options):
    settings = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                  bnb_4bit_compute_dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(folder, quantization_config=settings, dtype=torch.float32, **options)


def write_saved():
    """A Llama of one layer as transformers saves it in NF4, and its logits."""
    folder = FOLDER / "saved"
    with tempfile.TemporaryDirectory() as dense:
        torch.manual_seed(3)
        config = LlamaConfig(vocab_size=16, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
                             num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                             initializer_range=0.15, max_position_embeddings=64)
        AutoModelForCausalLM.from_config(config).save_pretrained(dense)
        model = load(dense)
    model.save_pretrained(folder)
    for path in folder.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            path.unlink()
    names = load_file(folder / "model.safetensors")
    assert any(name.endswith("quant_state.bitsandbytes__nf4") for name in names)
    ids = torch.arange(10).view(1, 10) * 3 % 16
    logits = model(ids).logits.detach()
    save_file({"input_ids": ids, "logits": logits.contiguous()}, folder / "golden.safetensors")


def quantized(weight):
    """Through NF4 and back. bitsandbytes' kernel for CPUs (0.50.2) misreads rows of other than 64 features and their
    multiples, which its implementation for any device does not."""
    codes, state = F.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=True)
    absmax = F.dequantize_blockwise(state.absmax, state.state2) + state.offset
    return _dequantize_4bit_compute(codes.view(-1), absmax, state.code, 64, weight.shape, weight.dtype).view_as(weight)


def write_llama():
    model = AutoModelForCausalLM.from_pretrained(TRAINING / "llama", dtype=torch.float32)
    for name, linear in model.model.named_modules():
        if isinstance(linear, torch.nn.Linear):
            linear.weight.data = quantized(linear.weight.data)
    model = PeftModel.from_pretrained(model, ADAPTERS / "llama-lora_all" / "initial", is_trainable=True)
    write_golden(model, FOLDER / "golden.json", bitsandbytes=bitsandbytes.__version__)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    write_quantized()
    write_saved()
    write_llama()


if __name__ == "__main__":
    main()
