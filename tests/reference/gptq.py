#!/usr/bin/env python3
"""Golden GPTQ: packed weights and what GPTQModel makes of them, and LoRA over a quantized model by peft.

Writes gptq/dequantize.safetensors: for each number of bits, group size and order of features BITS_GROUP_ORDER.*, the
tensors of a linear (qweight, scales, g_idx, qzeros as checkpoint format gptq_v2 has them, qzeros_v1 as gptq does) and
`weight` [in, out] float16, dequantized as the torch kernel of GPTQModel 7.7 does it (BaseQuantLinear.dequantize_weight
after convert_gptq_v1_to_v2_format_module), written anew here with torch alone.

Writes gptq/llama: a tiny quantized Llama (4 bits, groups of 32, act-order, zeros less one), adapters before and after
ten steps of Trainer over peft on a model whose linears hold the dequantized weights, and what Trainer logged.

Made with peft 0.21, transformers 5.23, torch 2.15:  python gptq.py
"""
import json
import shutil
from pathlib import Path

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Trainer, TrainingArguments

from adapters import LORA_SETTINGS, save
from training import COMMON, MAX_LENGTH, Recorder, encode, make_collator
from training import FOLDER as TRAINING

FOLDER = Path(__file__).parent / "gptq"
IN, OUT = 160, 32
# One in each code of a word, for the widths whose codes do not cross words.
ONES = {2: 0x55555555, 4: 0x11111111, 8: 0x01010101}


def signed(words):
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def pack_rows(codes, bits):
    """[n * 32, columns] -> [n * bits, columns]: 32 codes as one number of bits * 32 bits, lowest first."""
    codes = codes.to(torch.int64).reshape(-1, 32, codes.shape[1])
    words = torch.zeros(codes.shape[0], bits + 1, codes.shape[2], dtype=torch.int64)
    for j in range(32):
        word, shift = divmod(j * bits, 32)
        shifted = codes[:, j] << shift
        words[:, word] |= shifted & 0xFFFFFFFF
        words[:, word + 1] |= shifted >> 32
    return signed(words[:, :bits]).reshape(-1, codes.shape[2]).contiguous()


def pack_columns(codes, bits):
    return pack_rows(codes.t(), bits).t().contiguous()


def zeros_to_v1(qzeros, zeros, bits):
    """What GPTQModel's convert_gptq_v2_to_v1_format stores: whole words less one in each code, or, where codes cross
    words, each code less one."""
    if bits == 3:
        return pack_columns((zeros - 1) & 7, 3)
    return signed((qzeros.to(torch.int64) - ONES[bits]) & 0xFFFFFFFF)


# --- the kernel: shifts of expanded words, codes of 3 bits mended where they cross words ------------------------------
def unpack_3_bits(words):
    """[n, 3, columns] -> [n * 32, columns]: eleven codes of each word, the last of the first two cut short."""
    shifts = torch.tensor([[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0], [0, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
                           [0, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0]], dtype=torch.int32)
    fields = (words.unsqueeze(2) >> shifts[None, :, :, None]) & 7
    fields[:, 0, 10] = (fields[:, 0, 10] & 3) | ((fields[:, 1, 0] << 2) & 4)
    fields[:, 1, 11] = (fields[:, 1, 11] & 1) | ((fields[:, 2, 0] << 1) & 6)
    return torch.cat([fields[:, 0, :11], fields[:, 1, 1:], fields[:, 2, 1:11]], 1).flatten(0, 1)


def unpack(packed, bits):
    if bits == 3:
        return unpack_3_bits(packed.reshape(-1, 3, packed.shape[1]))
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    codes = (packed.unsqueeze(1) >> shifts[None, :, None]).to(torch.int16 if bits == 8 else torch.int8)
    return (codes & (2**bits - 1)).flatten(0, 1)


def zeros_from_v1(qzeros, bits):
    if bits == 3:
        return pack_columns((unpack(qzeros.t(), 3).t() + 1) & 7, 3)
    return qzeros + ONES[bits]  # carries from code to code


def dequantize(tensors, bits):
    groups = tensors["g_idx"].long()
    zeros = unpack(tensors["qzeros"].t().contiguous(), bits).t()
    return tensors["scales"][groups] * (unpack(tensors["qweight"], bits) - zeros[groups])


# --- golden files ----------------------------------------------------------------------------------------------------
def grouping(features, group_size, act_order):
    size = features if group_size == -1 else group_size
    groups = torch.arange(features, dtype=torch.int32) // size
    return groups[torch.randperm(features)] if act_order else groups


def random_linear(bits, group_size, act_order):
    groups = 1 if group_size == -1 else -(-IN // group_size)
    zeros = torch.randint(0, 2**bits, (groups, OUT), dtype=torch.int32)
    tensors = {"qweight": pack_rows(torch.randint(0, 2**bits, (IN, OUT), dtype=torch.int32), bits),
               "qzeros": pack_columns(zeros, bits), "scales": (torch.rand(groups, OUT) * 0.02 + 1e-5).half(),
               "g_idx": grouping(IN, group_size, act_order)}
    tensors["qzeros_v1"] = zeros_to_v1(tensors["qzeros"], zeros, bits)
    assert torch.equal(zeros_from_v1(tensors["qzeros_v1"], bits), tensors["qzeros"])
    return {**tensors, "weight": dequantize(tensors, bits).contiguous()}


def write_dequantized():
    tensors = {}
    for bits in (2, 3, 4, 8):
        for group_size in (32, 64, 128, -1):
            for act_order in (False, True):
                name = f"{bits}_{group_size}_{'act' if act_order else 'plain'}"
                linear = random_linear(bits, group_size, act_order)
                tensors.update({f"{name}.{key}": value for key, value in linear.items()})
    save_file(tensors, FOLDER / "dequantize.safetensors")


def quantize(weight, bits, group_size):
    """Rounds [out, in] to a grid over each group's extremes, with zeros anywhere between them."""
    groups = grouping(weight.shape[1], group_size, act_order=True).long()
    count = int(groups.max()) + 1
    least = torch.stack([weight[:, groups == g].min(1).values for g in range(count)]).clamp(max=0)
    most = torch.stack([weight[:, groups == g].max(1).values for g in range(count)]).clamp(min=0)
    scales = ((most - least) / (2**bits - 1)).half()
    zeros = (-least / scales).round().clamp(0, 2**bits - 1).to(torch.int32)
    codes = ((weight.t() / scales[groups]).round() + zeros[groups]).clamp(0, 2**bits - 1)
    return {"qweight": pack_rows(codes.to(torch.int32), bits), "qzeros": pack_columns(zeros, bits), "scales": scales,
            "g_idx": groups.to(torch.int32)}, zeros


def write_llama():
    bits, group_size = 4, 32
    folder = FOLDER / "llama"
    folder.mkdir()
    config = LlamaConfig(**{**COMMON, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
                         tie_word_embeddings=True)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config)
    stored = {name: value.detach().clone() for name, value in model.named_parameters()}
    for name, linear in model.model.named_modules():
        if not isinstance(linear, torch.nn.Linear):
            continue
        tensors, zeros = quantize(linear.weight.detach(), bits, group_size)
        wide = {**tensors, "scales": tensors["scales"].float()}  # of whose products none is rounded
        linear.weight.data = dequantize(wide, bits).t().contiguous()
        tensors["qzeros"] = zeros_to_v1(tensors["qzeros"], zeros, bits)
        del stored[f"model.{name}.weight"]
        stored.update({f"model.{name}.{key}": value for key, value in tensors.items()})
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": True, "sym": False,
                "checkpoint_format": "gptq"}
    (folder / "config.json").write_text(json.dumps({**json.loads(config.to_json_string()),
                                                    "quantization_config": settings}, indent=1) + "\n")
    train(model, folder)


def train(base, folder):
    torch.manual_seed(5)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=16, lora_dropout=0.0,
                                            target_modules=["q_proj", "v_proj", "down_proj"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.05)
    save(model, folder / "initial")
    write_golden(model, folder / "golden.json")


def write_golden(model, path, **made_with):
    """What Trainer logs over ten steps of the texts of training.py."""
    tokenizer = AutoTokenizer.from_pretrained(TRAINING / "tokenizer")
    texts = [json.loads(line)["output"] for line in (TRAINING / "dataset.jsonl").read_text().splitlines()]
    recorder = Recorder()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, optim="adamw_torch_fused", logging_steps=1,
                                  save_strategy="no", report_to="none", disable_tqdm=True,
                                  remove_unused_columns=False, **LORA_SETTINGS)
    Trainer(model=model, args=arguments, train_dataset=[encode(tokenizer, text) for text in texts],
            data_collator=make_collator(tokenizer.pad_token_id), callbacks=[recorder]).train()
    assert len(recorder.steps) == 10
    golden = {"model": "llama", "torch_dtype": "float32", "autocast": "no", "settings": LORA_SETTINGS,
              "model_max_length": MAX_LENGTH, "steps": recorder.steps,
              "made_with": {"peft": peft.__version__, "transformers": transformers.__version__,
                            "torch": torch.__version__, **made_with}}
    path.write_text(json.dumps(golden, indent=1) + "\n")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    torch.manual_seed(11)
    write_dequantized()
    write_llama()


if __name__ == "__main__":
    main()
