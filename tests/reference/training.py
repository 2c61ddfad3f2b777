#!/usr/bin/env python3
"""Golden training runs: ten optimization steps of the real Hugging Face Trainer on tiny random models.

Writes training/: a tokenizer, a dataset, and per case a checkpoint and what Trainer logged (loss, grad_norm,
learning_rate of each step, norms of the final parameters). Entries are encoded, masked and padded as
fms-hf-tuning does it; sampling order, accumulation, loss, clipping, schedule and AdamW are Trainer's own.
parts.json holds what optimizer, clipping, loss scaling and decay groups do on their own.

Made with transformers 5.23, torch 2.15, tokenizers 0.23:  python training.py
python training.py decays    which parameters of every family Trainer decays: decays.json.
python training.py CASE...   makes these cases anew, and their models if they are missing, and leaves all else as it is.
"""
import json
import math
import random
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (AutoModelForCausalLM, BloomConfig, Cohere2Config, Exaone4Config, Gemma2Config, Gemma3TextConfig, GPT2Config, GPTBigCodeConfig,
                          GPTNeoXConfig, GptOssConfig, GraniteConfig, GraniteMoeConfig, GraniteMoeHybridConfig,
                          GraniteMoeSharedConfig, LlamaConfig, Ministral3Config, MistralConfig, MixtralConfig, Olmo2Config,
                          Olmo3Config, Phi3Config, PreTrainedTokenizerFast, Qwen2Config, Qwen2MoeConfig, Qwen3Config, Qwen3MoeConfig, SmolLM3Config, StableLmConfig, Starcoder2Config,
                          Trainer, TrainerCallback, TrainingArguments, MODEL_FOR_CAUSAL_LM_MAPPING)
from transformers.core_model_loading import revert_weight_conversion

from drawn import save_drawn

FOLDER = Path(__file__).parent / "training"
TEMPLATE = "\n### Response:"
ENTRIES, MAX_LENGTH = 26, 48

SETTINGS = dict(per_device_train_batch_size=3, gradient_accumulation_steps=2, num_train_epochs=2, learning_rate=2e-3,
                warmup_steps=0.25, lr_scheduler_type="cosine", max_grad_norm=0.25, weight_decay=0.0, seed=42)

COMMON = dict(vocab_size=384, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.15, bos_token_id=0,
              eos_token_id=1, pad_token_id=None)

SMALL = {**COMMON, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2, "tie_word_embeddings": True}
EXPERTS = {**SMALL, "intermediate_size": 16, "num_local_experts": 4, "num_experts_per_tok": 2}
GPT = dict(vocab_size=384, initializer_range=0.15, bos_token_id=0, eos_token_id=1, pad_token_id=None)

CONFIGS = {
    "llama": LlamaConfig(**COMMON, tie_word_embeddings=True),
    "llama_all": LlamaConfig(**{**COMMON, "num_key_value_heads": 1, "num_attention_heads": 2}, attention_bias=True,
                             mlp_bias=True, tie_word_embeddings=False, head_dim=24,
                             rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=4.0,
                                                  low_freq_factor=1.0, high_freq_factor=4.0,
                                                  original_max_position_embeddings=32)),
    "mistral": MistralConfig(**COMMON, sliding_window=16),
    "granite": GraniteConfig(**COMMON, embedding_multiplier=6.0, attention_multiplier=0.08, residual_multiplier=0.4,
                             logits_scaling=3.0, attention_bias=True, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SMALL),
    "qwen3": Qwen3Config(**SMALL, head_dim=8),
    "mixtral": MixtralConfig(**EXPERTS),
    "granitemoe": GraniteMoeConfig(**EXPERTS, attention_multiplier=0.3, residual_multiplier=0.6, logits_scaling=1.5,
                                   embedding_multiplier=2.0),
    "granitemoeshared": GraniteMoeSharedConfig(**EXPERTS, attention_multiplier=0.3, shared_intermediate_size=12),
    "gpt_bigcode": GPTBigCodeConfig(**GPT, n_positions=64, n_embd=24, n_layer=2, n_head=4, attn_pdrop=0.0,
                                    embd_pdrop=0.0, resid_pdrop=0.0),
    "bloom": BloomConfig(**GPT, hidden_size=24, n_layer=2, n_head=4),
    "granitemoehybrid": GraniteMoeHybridConfig(
        **EXPERTS, layer_types=["mamba", "attention"], attention_multiplier=0.3, shared_intermediate_size=12,
        mamba_n_heads=4, mamba_d_head=12, mamba_d_state=8, mamba_chunk_size=16),
    "gpt_oss": GptOssConfig(**EXPERTS, head_dim=8, sliding_window=12,
                            rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, truncate=False,
                                                 original_max_position_embeddings=32)),
}
# Weights follow the rule of drawn.py, so that no file has to hold them.
DRAWN = {**COMMON, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2, "initializer_range": 0.125}
DRAWN_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
DRAWN_CONFIGS = {
    "olmo2": Olmo2Config(**DRAWN),
    "olmo3": Olmo3Config(**DRAWN, sliding_window=12, layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
        full_attention=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32),
        sliding_attention=dict(rope_type="default", rope_theta=10000.0))),
    # Most rows are longer than those of pre-training.
    "ministral3": Ministral3Config(**DRAWN, head_dim=8, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.3)),
    "smollm3": SmolLM3Config(**DRAWN, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=12),
    "starcoder2": Starcoder2Config(**DRAWN, sliding_window=12),
    "stablelm": StableLmConfig(**DRAWN, use_parallel_residual=True, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.7)),
    # Some batches are longer than the rows of pre-training, others are not.
    "phi3": Phi3Config(**DRAWN, sliding_window=12, original_max_position_embeddings=36, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 2.5, 6.0])),
    "gpt_neox": GPTNeoXConfig(**{key: value for key, value in DRAWN.items() if key != "num_key_value_heads"}, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.7)),
    "gpt2": GPT2Config(**{**GPT, "initializer_range": 0.125}, n_positions=64, n_embd=24, n_layer=2, n_head=4, attn_pdrop=0.0,
                       embd_pdrop=0.0, resid_pdrop=0.0),
    "gemma2": Gemma2Config(**DRAWN, head_dim=8, query_pre_attn_scalar=8, sliding_window=12, attn_logit_softcapping=3.0,
                           final_logit_softcapping=6.0),
    "gemma3": Gemma3TextConfig(**DRAWN, head_dim=8, query_pre_attn_scalar=8, sliding_window=12, sliding_window_pattern=2),
    "qwen2_moe": Qwen2MoeConfig(**DRAWN, **DRAWN_EXPERTS, shared_expert_intermediate_size=12),
    "qwen3_moe": Qwen3MoeConfig(**DRAWN, **DRAWN_EXPERTS, norm_topk_prob=True, mlp_only_layers=[0]),
    "exaone4": Exaone4Config(**DRAWN, sliding_window=12, sliding_window_pattern=2),
    "cohere2": Cohere2Config(**DRAWN, sliding_window=12, sliding_window_pattern=2, logit_scale=0.5),
}
BALANCED = {"output_router_logits": True, "router_aux_loss_coef": 0.05}

# name: model, dtype of the parameters, autocast, what differs from SETTINGS, what differs from the model's config
CASES = {
    "llama-float32": ("llama", "float32", "no", {}, {}),
    "llama_all-float32": ("llama_all", "float32", "no", {}, {}),
    "mistral-float32": ("mistral", "float32", "no", {}, {}),
    "granite-float32": ("granite", "float32", "no", {}, {}),
    "llama-bfloat16": ("llama", "bfloat16", "no", {}, {}),
    "granite-bfloat16": ("granite", "bfloat16", "no", {}, {}),
    "llama-autocast_bf16": ("llama", "float32", "bf16", {}, {}),
    # AdamW's second moment, a square, vanishes in float16; the default epsilon vanishes beside it.
    "llama-float16": ("llama", "float16", "no", {"adam_epsilon": 1e-3}, {}),
    "llama-autocast_fp16": ("llama", "float32", "fp16", {}, {}),
    # Loud logits: their gradients overflow float16 under the first five scales, and five updates are skipped. accelerate
    # sees that of adamw_torch only: adamw_torch_fused skips the update itself, and the schedule goes on.
    "granite-autocast_fp16": ("granite", "float32", "fp16", {"optim": "adamw_torch"}, {"logits_scaling": 0.014}),
    **{f"{family}-{dtype}": (family, dtype, "no", {}, {}) for dtype in ("float32", "bfloat16") for family in (
        "qwen2", "qwen3", "mixtral", "granitemoe", "granitemoeshared", "gpt_bigcode", "bloom", "granitemoehybrid",
        "gpt_oss")},
    **{f"{family}-float32": (family, "float32", "no", {}, {}) for family in DRAWN_CONFIGS},
    # Each micro batch adds its own auxiliary loss: two of them per step have twice the weight of one.
    **{f"{family}-balanced-float32": (family, "float32", "no", {}, BALANCED)
       for family in ("mixtral", "granitemoe", "granitemoehybrid", "gpt_oss", "qwen2_moe", "qwen3_moe")},
}


def make_texts():
    rng = random.Random(7)
    words = ("river stone bridge early market copper signal harvest window paper train garden silver morning "
             "engine letter number valley winter captain").split()
    pick = lambda low, high: " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))
    texts = [f"### Input:\n{pick(2, 6)}\n{TEMPLATE} {pick(3, 30)}" for _ in range(ENTRIES)]
    texts[5] = f"### Input:\n{pick(4, 6)} without an answer"  # no template: bears no loss
    return texts


def make_tokenizer(texts):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=COMMON["vocab_size"], special_tokens=["<s>", "</s>", "<unk>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                                   pad_token="<pad>")


def encode(tokenizer, text):
    ids = tokenizer(text + tokenizer.eos_token)["input_ids"][:MAX_LENGTH]
    template = tokenizer.encode(TEMPLATE, add_special_tokens=False)[2:]
    starts = [i for i in range(len(ids)) if ids[i:i + len(template)] == template]
    begin = starts[-1] + len(template) if starts else len(ids)
    return {"input_ids": ids, "labels": [-100] * begin + ids[begin:]}


def make_collator(pad_id):
    def collate(entries):
        width = max(len(e["input_ids"]) for e in entries)
        pad = lambda values, filler: values + [filler] * (width - len(values))
        batch = {"input_ids": [pad(e["input_ids"], pad_id) for e in entries],
                 "labels": [pad(e["labels"], -100) for e in entries],
                 "attention_mask": [pad([1] * len(e["input_ids"]), 0) for e in entries]}
        return {name: torch.tensor(values) for name, values in batch.items()}
    return collate


class Recorder(TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            values = {name: float(logs[name]) for name in ("loss", "grad_norm", "learning_rate")}
            # Not finite: the scaled gradients overflowed and the update was skipped. JSON has no word for it.
            self.steps.append({name: value if math.isfinite(value) else None for name, value in values.items()})


def saved_form(model):
    """Parameters under the names of the checkpoint, where experts are not always stacked as they are in memory."""
    parameters = dict(model.named_parameters())
    saved = revert_weight_conversion(model, parameters)
    return {name: saved[name] for name in [*parameters, *saved] if name in saved}


def train(model_name, dtype, autocast, settings_changes, config_changes, entries, pad_id, held_out=None, watch=None):
    settings = {**SETTINGS, **settings_changes}
    model = load(model_name, dtype=getattr(torch, dtype), **config_changes)
    recorder = Recorder()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, logging_steps=1,
                                  save_strategy="no", report_to="none", disable_tqdm=True, gradient_checkpointing=True,
                                  gradient_checkpointing_kwargs={"use_reentrant": False},
                                  remove_unused_columns=False, bf16=autocast == "bf16", fp16=autocast == "fp16",
                                  **{"optim": "adamw_torch_fused", **settings})
    trainer = Trainer(model=model, args=arguments, train_dataset=entries, data_collator=make_collator(pad_id),
                      eval_dataset=held_out, callbacks=[recorder] + ([watch] if watch else []))
    if autocast == "fp16":  # on a CPU accelerate switches it off; from here on both do as on a GPU
        trainer.accelerator.native_amp, trainer.accelerator.scaler = True, torch.amp.GradScaler("cpu")
    trainer.train()
    norms = [s["grad_norm"] for s in recorder.steps if s["grad_norm"] is not None]
    assert len(recorder.steps) == 10 and all(norm > settings["max_grad_norm"] for norm in norms)
    return {"model": model_name, "torch_dtype": dtype, "autocast": autocast, "settings": settings,
            "config": config_changes, "model_max_length": MAX_LENGTH, "steps": recorder.steps,
            "final_norms": {name: parameter.detach().double().norm().item()
                            for name, parameter in saved_form(model).items()},
            "made_with": {"transformers": transformers.__version__, "torch": torch.__version__}}


def adamw_trace(steps=4, decay=0.1):
    torch.manual_seed(3)
    weight, bias = torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(4))
    trace = {"weight": weight.tolist(), "bias": bias.tolist(), "weight_decay": decay, "max_norm": 0.5, "steps": []}
    optimizer = torch.optim.AdamW([{"params": [weight], "weight_decay": decay},
                                   {"params": [bias], "weight_decay": 0.0}], fused=True)
    for step in range(steps):
        weight.grad, bias.grad = torch.randn(3, 4), torch.randn(4)
        row = {"learning_rate": 1e-2 / (step + 1), "weight_grad": weight.grad.tolist(), "bias_grad": bias.grad.tolist()}
        row["norm"] = torch.nn.utils.clip_grad_norm_([weight, bias], trace["max_norm"]).item()
        for group in optimizer.param_groups:
            group["lr"] = row["learning_rate"]
        optimizer.step()
        trace["steps"].append({**row, "weight": weight.tolist(), "bias": bias.tolist()})
    return trace


def scaler_trace():
    """Scale before each update, for updates 0 to 4010 of which three overflow."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer, scaler = torch.optim.SGD([parameter], lr=0.0), torch.amp.GradScaler("cpu")
    overflows, changes = [0, 5, 2020], []
    for update in range(4100):
        scaler.scale(torch.zeros(1))  # makes the scale exist
        if not changes or changes[-1]["scale"] != scaler.get_scale():
            changes.append({"update": update, "scale": scaler.get_scale()})
        parameter.grad = torch.full((1,), float("inf") if update in overflows else 1.0)
        scaler.step(optimizer)
        scaler.update()
    return {"updates": 4100, "overflows": overflows, "changes": changes}


def decay_names(name="llama_all"):
    model = load(name)
    decaying = set(Trainer.get_decay_parameter_names(None, model))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            parameter.fill_(parameter_name in decaying)
    return {parameter_name: bool(parameter.all()) for parameter_name, parameter in saved_form(model).items()}


def write_decays():
    decays = {name: decay_names(name) for name in {**CONFIGS, **DRAWN_CONFIGS}}
    (FOLDER / "decays.json").write_text(json.dumps(decays, indent=1) + "\n")


def write_parts():
    parts = {"adamw": adamw_trace(), "loss_scaling": scaler_trace(), "decays": decay_names()}
    (FOLDER / "parts.json").write_text(json.dumps(parts, indent=1) + "\n")


def load(name, **options):
    if name not in DRAWN_CONFIGS:
        return AutoModelForCausalLM.from_pretrained(FOLDER / name, **options)
    if name == "gemma2":  # the default leaves out the cap
        options["attn_implementation"] = "eager"
    with tempfile.TemporaryDirectory() as temporary:
        config = DRAWN_CONFIGS[name]
        save_drawn(Path(temporary), MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], config)
        return AutoModelForCausalLM.from_pretrained(temporary, **options)


def write_model(name):
    if name in DRAWN_CONFIGS:
        with tempfile.TemporaryDirectory() as temporary:
            config = DRAWN_CONFIGS[name]
            save_drawn(Path(temporary), MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], config)
            (FOLDER / name).mkdir(exist_ok=True)
            shutil.copy(Path(temporary) / "config.json", FOLDER / name)
        return
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(CONFIGS[name])
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name or "bias" in parameter_name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "generation_config.json").unlink(missing_ok=True)


def write_cases(names):
    texts = [json.loads(line)["output"] for line in (FOLDER / "dataset.jsonl").read_text().splitlines()]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER / "tokenizer")
    entries = [encode(tokenizer, text) for text in texts]
    for name in names:
        if not (FOLDER / CASES[name][0]).exists():
            write_model(CASES[name][0])
        golden = train(*CASES[name], entries, tokenizer.pad_token_id)
        (FOLDER / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")


def main():
    if sys.argv[1:] == ["decays"]:
        return write_decays()
    if len(sys.argv) > 1:
        return write_cases(sys.argv[1:])
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    texts = make_texts()
    (FOLDER / "dataset.jsonl").write_text("".join(json.dumps({"output": text}) + "\n" for text in texts))
    tokenizer = make_tokenizer(texts)
    tokenizer.save_pretrained(FOLDER / "tokenizer")
    for name in {**CONFIGS, **DRAWN_CONFIGS}:
        write_model(name)
    write_cases(CASES)
    write_parts()
    write_decays()


if __name__ == "__main__":
    main()
