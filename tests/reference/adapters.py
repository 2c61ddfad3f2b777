#!/usr/bin/env python3
"""Golden adapters: LoRA and prompt tuning by peft, on the models, texts and settings of training.py.

Writes adapters/CASE/: the adapter that training starts from and the one that it ends with, each as peft saves it
(adapter_config.json, adapter_model.safetensors in initial/ and final/), what Trainer logged at each of ten steps
(golden.json), and the logits of the initial adapter (golden.safetensors). LoRA starts with random B, not with zero,
so that the first step already has a gradient for every tensor and the initial logits differ from the base model's.
Of activated LoRA, golden.json also has the invocation, and the first row of the initial logits has its tokens.

adapters/exact.json has runs in float64 with adapters whose values are drawn (drawn.py): loss and gradient norm of six
steps of gradient descent, and what of them peft saves.

Made with peft 0.21, transformers 5.23, torch 2.15:  python adapters.py
The runs in float64 alone:                           python adapters.py --exact
Some cases, and everything else left as it is:        python adapters.py CASE...
An adapter that this program wrote, in peft:          python adapters.py --check FOLDER MODEL
where FOLDER also holds golden.safetensors (input_ids, logits), as tests/engine/adapter_files_test.cpp leaves it.
"""
import argparse
import json
import shutil
import tempfile
from pathlib import Path

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from drawn import STEPS, Exact, drawn_bits, loss_of, rounded, save_drawn
from training import DRAWN_CONFIGS, FOLDER as TRAINING
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


# name: model, adapter
EXACT_CASES = {
    # A tied output projection and the embedding become two copies, wherever one of them trains.
    "modules_to_save": ("llama_all", dict(target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens", "lm_head"])),
    "modules_to_save-tied": ("llama", dict(target_modules="all-linear", modules_to_save=["embed_tokens", "lm_head"])),
    "modules_to_save-embedding": ("llama", dict(target_modules=["q_proj", "up_proj"], modules_to_save=["embed_tokens"])),
    # Names end so: all three norms. A linear that trains whole has no adapter.
    "modules_to_save-norms": ("mistral", dict(target_modules="all-linear", modules_to_save=["norm", "mlp.down_proj"])),
    # Its output projection is tied, its embedding scaled, and its logits are capped.
    "tokens": ("gemma2", dict(target_modules=["embed_tokens", "lm_head", "q_proj"])),
    "tokens-untied": ("llama_all", dict(target_modules=["embed_tokens", "lm_head", "up_proj"], use_rslora=True)),
    # Of q, k and v two have one rank and scale. An expression matches the end of a name from a dot on, the first one counts.
    "patterns": ("mistral", dict(target_modules="all-linear", rank_pattern={r"layers\.1\.self_attn\.q_proj": 5, "q_proj": 3, "proj": 7},
                                 alpha_pattern={"o_proj": 9, r"(up|gate)_proj": 2.5})),
    "patterns-tokens": ("llama_all", dict(target_modules=["embed_tokens", "lm_head", "o_proj"], use_rslora=True,
                                          rank_pattern={"embed_tokens": 4, "lm_head": 1}, alpha_pattern={"lm_head": 3})),
    # Each matrix of the layers, an expert's gate and up among them, through bitsandbytes' NF4 with double quantization.
    "nf4-mixture": ("mixtral", dict(target_modules=["q_proj", "v_proj"])),
}


def quantize_layers(model):
    from nf4 import quantized  # which imports this file
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".layers." not in name or weight.dim() < 2 or name.endswith("gate.weight"):
                continue
            matrices = [weight] if weight.dim() == 2 else [half for expert in weight for half in expert.chunk(2 if "gate_up" in name else 1)]
            for matrix in matrices:
                matrix.copy_(quantized(matrix.float().contiguous()))


def exact_base(name):
    """In float64; of a model whose weights are drawn with these."""
    if name not in DRAWN_CONFIGS:
        options = {"experts_implementation": "eager"} if name == "mixtral" else {}  # grouped_mm has no float64
        return AutoModelForCausalLM.from_pretrained(TRAINING / name, dtype=torch.float64, **options)
    cls = MODEL_FOR_CAUSAL_LM_MAPPING[type(DRAWN_CONFIGS[name])]
    with tempfile.TemporaryDirectory() as folder:
        save_drawn(Path(folder), cls, DRAWN_CONFIGS[name])
        return cls.from_pretrained(folder, dtype=torch.float64)


def train_exactly(name):
    model_name, options = EXACT_CASES[name]
    options = {"r": 2, "lora_alpha": 6, **options}
    base = exact_base(model_name)
    quantized = name.startswith("nf4-")
    if quantized:
        quantize_layers(base)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **options)).double()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.no_grad():
        for key, parameter in trained.items():
            own = key.removeprefix("base_model.model.").replace(".default", "")
            if "lora_" in key:
                parameter.copy_(0.4 * drawn_bits(own, parameter.numel()).view(parameter.shape))
    ids = ((drawn_bits("ids", 24) + 0.5) * base.config.vocab_size).long().view(2, 12)
    labels = ids.clone()
    labels[0, :5] = -100
    golden = {"model": model_name, "lora": options, "input_ids": ids.tolist(), "labels": labels.tolist(),
              "learning_rate": 0.05, "steps": [], **({"nf4": True} if quantized else {})}
    for _ in range(STEPS):
        model.zero_grad()
        with Exact():
            loss = loss_of(model(input_ids=ids, use_cache=False).logits, labels)
            loss.backward()
        assert all(parameter.grad.dtype == torch.float64 for parameter in trained.values())
        norm = torch.stack([parameter.grad.norm() for parameter in trained.values()]).norm().item()
        golden["steps"].append([loss.item(), norm])
        with torch.no_grad():
            for parameter in trained.values():
                parameter -= golden["learning_rate"] * parameter.grad
    golden["saved"] = {key: list(value.shape) for key, value in get_peft_model_state_dict(model).items()}
    print(name, [round(loss, 4) for loss, _ in golden["steps"]])
    return rounded(golden)


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
    model = PeftModel.from_pretrained(exact_base(model_name).float(), folder).eval()
    ids = golden["input_ids"]
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    difference = (logits - golden["logits"]).abs().max().item()
    print(f"{folder}: {model.peft_config['default'].peft_type}, largest difference of logits {difference:.2e}")
    assert difference < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", nargs=2, metavar=("FOLDER", "MODEL"))
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("names", nargs="*", metavar="CASE", choices=[[], *CASES])
    options = parser.parse_args()
    if options.check:
        return check(Path(options.check[0]), options.check[1])

    for folder in [] if options.exact else [FOLDER / name for name in options.names] or [FOLDER]:
        shutil.rmtree(folder, ignore_errors=True)
    if options.exact or not options.names:
        FOLDER.mkdir(exist_ok=True)
        cases = {name: train_exactly(name) for name in EXACT_CASES}
        (FOLDER / "exact.json").write_text("{" + ",\n".join(f'"{name}": {json.dumps(case)}' for name, case in cases.items()) + "}\n")
    if options.exact:
        return None
    tokenizer = AutoTokenizer.from_pretrained(TRAINING / "tokenizer")
    texts = [json.loads(line)["output"] for line in (TRAINING / "dataset.jsonl").read_text().splitlines()]
    entries = [encode(tokenizer, text) for text in texts]
    for name in options.names or CASES:
        train(name, entries, tokenizer)


if __name__ == "__main__":
    main()
