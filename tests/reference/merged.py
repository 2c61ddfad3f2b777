#!/usr/bin/env python3
"""Golden merges: what peft's merge_and_unload makes of adapters in adapters/CASE/final and of one with patterns.

Writes merged/CASE.safetensors with the tensors that differ from the base's, and merged/mistral-patterns/, an adapter with
use_dora, use_rslora, rank_pattern, alpha_pattern and modules_to_save whose tensors are random. merged/llama-bfloat16/ is a base in
bfloat16. merged/gpt2/, merged/gpt2-adapter/ and merged/gpt2-dora/ have linears that are stored as [in, out], a square one among them.

Made with peft 0.21, transformers 5.23, torch 2.15:  python merged.py
A folder that `sftbench weights merge` wrote:        python merged.py --check FOLDER BASE ADAPTER
"""
import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).parent
CASES = {"llama-lora_qv": "llama", "llama-lora_all-bfloat16": "llama", "granite-lora_all": "granite",
         "gpt_bigcode-lora_attn": "gpt_bigcode", "bloom-lora_mlp": "bloom", "granitemoehybrid-lora_all": "granitemoehybrid"}


def merged(base, adapter, dtype=torch.float32):
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    return PeftModel.from_pretrained(model, adapter).merge_and_unload()


def differing(model, base, dtype):
    before = AutoModelForCausalLM.from_pretrained(base, dtype=dtype).state_dict()
    return {name: value.contiguous() for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


def make_patterns(folder):
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_pretrained(HERE / "training" / "mistral", dtype=torch.float32)
    config = LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=6, lora_dropout=0.0, target_modules=["q_proj", "up_proj"],
                        use_dora=True, use_rslora=True, rank_pattern={"up_proj": 2}, alpha_pattern={r"layers\.1\.self_attn\.q_proj": 9},
                        modules_to_save=["lm_head"])
    save_random(get_peft_model(model, config), folder)


def make_gpt2(base):
    torch.manual_seed(6)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_embd=8, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=1))
    model.save_pretrained(base)
    (base / "generation_config.json").unlink(missing_ok=True)
    for name, dora, targets in (("adapter", False, ["c_attn", "c_proj", "c_fc"]), ("dora", True, ["c_attn", "attn.c_proj"])):
        start = GPT2LMHeadModel.from_pretrained(base)
        save_random(get_peft_model(start, LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=3, use_dora=dora, target_modules=targets)),
                    base.with_name(f"gpt2-{name}"))


def save_random(peft, folder):
    for name, parameter in peft.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            parameter.data.normal_(0, 0.1)
    peft.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    file = folder / "adapter_config.json"
    settings = json.loads(file.read_text())
    settings["base_model_name_or_path"] = None  # a path of the machine that this ran on
    file.write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")


def check(folder, base, adapter):
    ours = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()
    theirs = merged(base, adapter, next(iter(ours.values())).dtype).state_dict()
    assert ours.keys() == theirs.keys()
    worst = max((ours[name].float() - theirs[name].float()).abs().max().item() for name in ours)
    print(f"{len(ours)} tensors, the largest difference is {worst:.3g}")


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(*sys.argv[2:5])
    out = HERE / "merged"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    make_patterns(out / "mistral-patterns")
    jobs = {case: (HERE / "training" / model, HERE / "adapters" / case / "final") for case, model in CASES.items()}
    make_gpt2(out / "gpt2")
    jobs["gpt2"] = (out / "gpt2", out / "gpt2-adapter")
    jobs["gpt2-dora"] = (out / "gpt2", out / "gpt2-dora")
    jobs["mistral-patterns"] = (HERE / "training" / "mistral", out / "mistral-patterns")
    half = out / "llama-bfloat16"
    AutoModelForCausalLM.from_pretrained(HERE / "training" / "llama", dtype=torch.bfloat16).save_pretrained(half)
    jobs["llama-lora_all-bfloat16"] = (half, jobs["llama-lora_all-bfloat16"][1])
    for case, (base, adapter) in jobs.items():
        dtype = torch.bfloat16 if case.endswith("bfloat16") else torch.float32
        save_file(differing(merged(base, adapter, dtype), base, dtype), out / f"{case}.safetensors")
        print(case, (out / f"{case}.safetensors").stat().st_size)


if __name__ == "__main__":
    main()
