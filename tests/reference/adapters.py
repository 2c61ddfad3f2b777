#!/usr/bin/env python3
"""Golden adapters: LoRA and prompt tuning by peft, on the models, texts and settings of training.py.

Writes adapters/CASE/: the adapter that training starts from and the one that it ends with, each as peft saves it
(adapter_config.json, adapter_model.safetensors in initial/ and final/), what Trainer logged at each of ten steps
(golden.json), and the logits of the initial adapter (golden.safetensors). LoRA starts with random B, not with zero,
so that the first step already has a gradient for every tensor and the initial logits differ from the base model's.
Of activated LoRA, golden.json also has the invocation, and the first row of the initial logits has its tokens.

Made with peft 0.21, transformers 5.23, torch 2.15:  python adapters.py
Some cases, and everything else left as it is:        python adapters.py CASE...
An adapter that this program wrote, in peft:          python adapters.py --check FOLDER MODEL
where FOLDER also holds golden.safetensors (input_ids, logits), as tests/engine/adapter_files_test.cpp leaves it.
"""
import argparse
import json
import shutil
from pathlib import Path

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from training import FOLDER as TRAINING
from training import MAX_LENGTH, SETTINGS, Recorder, encode, make_collator

FOLDER = Path(__file__).parent / "adapters"
LORA_SETTINGS = {**SETTINGS, "learning_rate": 2e-2}
PROMPT_SETTINGS = {**SETTINGS, "learning_rate": 2e-2}
INIT_TEXT = "Classify if the tweet is a complaint or not:"


def lora(targets, rank=4, alpha=16, **more):
    return LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=targets, **more)


def prompt(init):
    # What peft repeats to the number of virtual tokens, or cuts: with BOS, this vocabulary makes more than 8 of it.
    text = {"prompt_tuning_init_text": INIT_TEXT, "tokenizer_name_or_path": str(TRAINING / "tokenizer")}
    return PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=8, prompt_tuning_init=init,
                              **(text if init == "TEXT" else {}))


# Activated LoRA, by case: the text from whose last occurrence on adapters act. Of the 26 entries 16 have " stone" once or
# more, up to seven times, and all but one have the second.
INVOCATIONS = {"llama-alora_qv": " stone", "granite-alora_all": "### Response:",
               "granitemoehybrid-alora_all": "### Response:"}
# Whose weights decay: A, B and the magnitudes of DoRA, which no name or class exempts.
DECAYING = {"granite-dora"}
# Trainer recomputes layers, which peft has to tell again where adapters act.
CHECKPOINTED = {"granite-alora_all", "granite-dora"}
# Whose logits tests/engine/adapter_files_test.cpp reads.
WITH_LOGITS = {*(f"{model}-{what}" for model in ("llama", "mistral", "granite") for what in ("lora_qv", "lora_all", "prompt")),
               "llama-alora_qv", "granite-alora_all", "granitemoehybrid-alora_all", "granite-dora"}

# name: model, dtype of the parameters, autocast, adapter
CASES = {
    **{f"{model}-lora_qv": (model, "float32", False, lora(["q_proj", "v_proj"]))
       for model in ("llama", "mistral", "granite")},
    **{f"{model}-lora_all": (model, "float32", False, lora("all-linear", rank=3, alpha=5))
       for model in ("llama", "mistral", "granite")},
    **{f"{model}-prompt": (model, "float32", False, prompt("TEXT")) for model in ("llama", "mistral", "granite")},
    "llama-lora_all-bfloat16": ("llama", "bfloat16", False, lora("all-linear", rank=3, alpha=5)),
    "llama-lora_qv-autocast_bf16": ("llama", "float32", True, lora(["q_proj", "v_proj"])),
    "llama-prompt-bfloat16": ("llama", "bfloat16", False, prompt("TEXT")),
    # The targets of config/models.yaml. granitemoehybrid has them on its attention layers alone.
    **{f"{model}-lora_qv": (model, "float32", False, lora(["q_proj", "v_proj"]))
       for model in ("qwen2", "qwen3", "mixtral", "granitemoe", "granitemoeshared", "granitemoehybrid", "gpt_oss")},
    # Projections of Mamba and the shared MLP, too. Router and experts are no Linear and stay as they are.
    "granitemoehybrid-lora_all": ("granitemoehybrid", "float32", False, lora("all-linear", rank=3, alpha=5)),
    # c_proj is the name of a layer of the attention and of one of the MLP.
    "gpt_bigcode-lora_attn": ("gpt_bigcode", "float32", False, lora(["c_attn", "c_proj"])),
    "bloom-lora_mlp": ("bloom", "float32", False, lora(["dense_h_to_4h", "dense_4h_to_4h"])),
    # A linear with a bias, one with which a layer ends, and one of a group in which others have no adapter.
    "granite-dora": ("granite", "float32", False, lora(["q_proj", "down_proj", "up_proj"], rank=2, alpha=5, use_dora=True)),
    "llama-dora-bfloat16": ("llama", "bfloat16", False, lora(["v_proj", "down_proj"], rank=2, use_dora=True)),
    "llama-alora_qv": ("llama", "float32", False, lora(["q_proj", "v_proj"])),
    "granite-alora_all": ("granite", "float32", False, lora("all-linear", rank=3, alpha=5)),
    "granitemoehybrid-alora_all": ("granitemoehybrid", "float32", False, lora("all-linear", rank=3, alpha=5)),
}


def save(model, folder):
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None  # a path of the machine that this ran on
    if "tokenizer_name_or_path" in config:
        config["tokenizer_name_or_path"] = None
    if isinstance(config.get("target_modules"), list):
        config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def train(name, entries, tokenizer):
    model_name, dtype, autocast, config = CASES[name]
    if name in INVOCATIONS:
        config.alora_invocation_tokens = tokenizer.encode(INVOCATIONS[name], add_special_tokens=False)
    folder = FOLDER / name
    folder.mkdir(parents=True)
    torch.manual_seed(5)
    base = AutoModelForCausalLM.from_pretrained(TRAINING / model_name, dtype=getattr(torch, dtype))
    model = get_peft_model(base, config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.normal_(0, 0.05)
    save(model, folder / "initial")
    model.eval()
    input_ids = torch.randint(4, base.config.vocab_size, (2, 12))
    if name in INVOCATIONS:
        tokens = torch.tensor(config.alora_invocation_tokens)
        input_ids[0, 3:3 + len(tokens)] = tokens
    if name in WITH_LOGITS:
        with torch.no_grad():
            logits = model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).logits
        save_file({"input_ids": input_ids, "logits": logits.float().contiguous()}, folder / "golden.safetensors")

    settings = PROMPT_SETTINGS if config.peft_type == "PROMPT_TUNING" else LORA_SETTINGS
    if name in DECAYING:
        settings = {**settings, "weight_decay": 0.1}
    recorder = Recorder()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, optim="adamw_torch_fused", logging_steps=1,
                                  save_strategy="no", report_to="none", disable_tqdm=True,
                                  remove_unused_columns=False, bf16=autocast,
                                  gradient_checkpointing=name in CHECKPOINTED,
                                  gradient_checkpointing_kwargs={"use_reentrant": False}, **settings)
    Trainer(model=model, args=arguments, train_dataset=entries, data_collator=make_collator(tokenizer.pad_token_id),
            callbacks=[recorder]).train()
    save(model, folder / "final")
    begin, end = (load_file(folder / when / "adapter_model.safetensors") for when in ("initial", "final"))
    assert len(recorder.steps) == 10
    least = {key: 0.01 if "magnitude" in key else 0.05 for key in begin}
    assert all((end[key] - begin[key]).norm() > least[key] * begin[key].norm() for key in begin), "training that shows"
    golden = {"model": model_name, "torch_dtype": dtype, "autocast": "bf16" if autocast else "no",
              "settings": settings, "model_max_length": MAX_LENGTH, "steps": recorder.steps,
              **({"invocation": INVOCATIONS[name]} if name in INVOCATIONS else {}),
              "made_with": {"peft": peft.__version__, "transformers": transformers.__version__,
                            "torch": torch.__version__}}
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


def check(folder, model_name):
    """An adapter of this program in peft: the logits are those that stand beside it, so every tensor has its place."""
    golden = load_file(folder / "golden.safetensors")
    base = AutoModelForCausalLM.from_pretrained(TRAINING / model_name, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, folder).eval()
    ids = golden["input_ids"]
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    difference = (logits - golden["logits"]).abs().max().item()
    print(f"{folder}: {model.peft_config['default'].peft_type}, largest difference of logits {difference:.2e}")
    assert difference < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", nargs=2, metavar=("FOLDER", "MODEL"))
    parser.add_argument("names", nargs="*", metavar="CASE", choices=[[], *CASES])
    options = parser.parse_args()
    if options.check:
        return check(Path(options.check[0]), options.check[1])

    for folder in [FOLDER / name for name in options.names] or [FOLDER]:
        shutil.rmtree(folder, ignore_errors=True)
    tokenizer = AutoTokenizer.from_pretrained(TRAINING / "tokenizer")
    texts = [json.loads(line)["output"] for line in (TRAINING / "dataset.jsonl").read_text().splitlines()]
    entries = [encode(tokenizer, text) for text in texts]
    for name in options.names or CASES:
        train(name, entries, tokenizer)


if __name__ == "__main__":
    main()
