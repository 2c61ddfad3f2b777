#!/usr/bin/env python3
"""Golden files for tests/model: tiny random checkpoints of each family, made and run by Hugging Face transformers.

usage: python3 tests/reference/models.py [--output FOLDER] [CASE...]      (families.py has the other families)

Writes one folder per case with config.json and weights as save_pretrained writes them, and golden.safetensors with
  input_ids, labels         [B, S] int64, right-padded, labels masked at the start and on padding
  loss                      mean cross-entropy in float32 arithmetic
  attention_mask            [B, S] int64, 0 on padding, where logits mean nothing
  logits                    [B, S, V] float32
  grad.<parameter name>     gradient of the loss
  autocast.loss, autocast.logits   the same model in float32 under torch.autocast("cpu", bfloat16)
  bf16.loss, bf16.logits    the same model loaded in bfloat16
with scaled_dot_product_attention, Hugging Face's default. The files here: transformers 5.23.0, torch 2.15.0.
"""
import argparse
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers.core_model_loading import revert_weight_conversion

IGNORED = -100
COMMON = dict(
    vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, initializer_range=0.25,
)


def rope(rope_type, **fields):
    return dict(rope_type=rope_type, rope_theta=10000.0, **fields)


# name -> (class, configuration, how it is saved, sequence length)
CASES = {
    "llama_plain": (LlamaForCausalLM, LlamaConfig(**COMMON), {}, 24),
    "llama_every_option": (LlamaForCausalLM, LlamaConfig(**{
        **COMMON, "num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 48, "head_dim": 16,
        "num_hidden_layers": 3, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "pad_token_id": 0,
        "rope_parameters": rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                original_max_position_embeddings=32)}), {}, 24),
    "llama_sharded": (LlamaForCausalLM, LlamaConfig(**{**COMMON, "num_key_value_heads": 4}),
                      dict(max_shard_size="20KB"), 20),
    "llama_bf16": (LlamaForCausalLM, LlamaConfig(**{**COMMON, "tie_word_embeddings": True}),
                   dict(dtype=torch.bfloat16), 20),
    "llama_rope_linear": (LlamaForCausalLM, LlamaConfig(**{
        **COMMON, "rope_parameters": rope("linear", factor=4.0)}), {}, 40),
    "llama_rope_dynamic": (LlamaForCausalLM, LlamaConfig(**{
        **COMMON, "max_position_embeddings": 16, "rope_parameters": rope("dynamic", factor=2.0)}), {}, 40),
    "llama_rope_yarn": (LlamaForCausalLM, LlamaConfig(**{
        **COMMON, "max_position_embeddings": 128, "head_dim": 16,
        "rope_parameters": rope("yarn", factor=4.0, original_max_position_embeddings=32)}), {}, 40),
    "llama_rope_yarn_mscale": (LlamaForCausalLM, LlamaConfig(**{
        **COMMON, "max_position_embeddings": 128, "head_dim": 16,
        "rope_parameters": rope("yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=16.0, beta_slow=2.0,
                                mscale=1.0, mscale_all_dim=0.5, truncate=False)}), {}, 40),
    "mistral_plain": (MistralForCausalLM, MistralConfig(**COMMON, sliding_window=None), {}, 24),
    "mistral_sliding_window": (MistralForCausalLM, MistralConfig(
        **{**COMMON, "num_hidden_layers": 3, "head_dim": 16, "sliding_window": 5, "tie_word_embeddings": True}), {}, 40),
    "granite_plain": (GraniteForCausalLM, GraniteConfig(**COMMON, attention_multiplier=0.25), {}, 24),
    "granite_every_option": (GraniteForCausalLM, GraniteConfig(**{
        **COMMON, "num_hidden_layers": 3, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
        "embedding_multiplier": 12.0, "attention_multiplier": 0.0625, "residual_multiplier": 0.22, "logits_scaling": 6.0,
        "pad_token_id": 0, "rope_parameters": rope("default") | {"rope_theta": 300000.0}}), {}, 24),
}


def make_batch(vocab_size, length, seed):
    """Three rows: full, padded, and one whose last token is a real 0 (the padding id of some cases)."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, vocab_size, (3, length), generator=generator)
    mask = torch.ones_like(ids)
    ids[0, 3] = 0
    ids[1, length * 2 // 3:] = 0
    mask[1, length * 2 // 3:] = 0
    labels = ids.clone()
    labels[mask == 0] = IGNORED
    labels[0, :4] = IGNORED
    labels[1, :2] = IGNORED
    return ids, mask, labels


def randomise_vectors(model):
    """Hugging Face starts norms at 1 and biases at 0, where mistakes cancel."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.2 + (1.0 if "norm" in name else 0.0))


def run(model, ids, mask, labels):
    out = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False)
    return out.loss.detach().float().reshape(1), out.logits.detach().float()


def saved_gradients(model):
    """Gradients under the names, and in the shapes, that save_pretrained gives to their parameters: transformers holds
    experts stacked, checkpoints may hold them one by one."""
    return revert_weight_conversion(model, {name: parameter.grad for name, parameter in model.named_parameters()
                                            if parameter.grad is not None})


def save_case(folder, cls, config, save, seed, randomise=randomise_vectors):
    torch.manual_seed(seed)
    model = cls(config).eval()
    randomise(model)
    model = model.to(save.get("dtype", torch.float32))
    model.save_pretrained(folder, **{k: v for k, v in save.items() if k != "dtype"})
    (folder / "generation_config.json").unlink(missing_ok=True)


def run_case(folder, cls, ids, mask, labels, **options):
    model = cls.from_pretrained(folder, dtype=torch.float32, **options).eval()
    golden = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        golden["autocast.loss"], golden["autocast.logits"] = run(model, ids, mask, labels)
    out = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False)
    out.loss.backward()
    golden["loss"], golden["logits"] = out.loss.detach().reshape(1), out.logits.detach()
    for parameter_name, gradient in saved_gradients(model).items():
        golden["grad." + parameter_name] = gradient
    # Loaded anew: .to(bfloat16) would round the rotary frequencies too.
    half_model = cls.from_pretrained(folder, dtype=torch.bfloat16, **options).eval()
    with torch.no_grad():
        golden["bf16.loss"], golden["bf16.logits"] = run(half_model, ids, mask, labels)
    return golden


def write_golden(folder, golden):
    save_file({k: v.contiguous() for k, v in golden.items()}, folder / "golden.safetensors")
    print(f"{folder.name}: loss {golden['loss'].item():.6f}, autocast {golden['autocast.loss'].item():.6f}, "
          f"bf16 {golden['bf16.loss'].item():.6f}")


def make_case(folder, case, seed):
    cls, config, save, length = case
    save_case(folder, cls, config, save, seed)
    write_golden(folder, run_case(folder, cls, *make_batch(config.vocab_size, length, seed)))


def make_cases(cases, seeds, make, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "models", metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="CASE", choices=[[], *cases], help="all, if none is named")
    options = parser.parse_args()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    torch.set_num_threads(1)
    for name in options.names or cases:
        folder = options.output / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder, cases[name], seeds[name])


if __name__ == "__main__":
    make_cases(CASES, {name: seed for seed, name in enumerate(CASES, start=1)}, make_case, __doc__)
