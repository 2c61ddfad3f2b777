#!/usr/bin/env python3
"""Golden files of families whose weights follow a rule, which tests/model/drawn_weights.h knows, too. No weights are stored.

usage: python3 tests/reference/drawn.py [--output FOLDER] [CASE...]

A model with a vision tower gets rows without images: the tower has no gradient, and no entry.

Writes one folder per case with config.json as save_pretrained writes it, and golden.json with
  input_ids, attention_mask, labels   [B, S], right-padded, labels masked at the start and on padding
  logits             of each real position: its product with the drawn vector "logits", and its norm
  gradients          of each parameter, by its name in the checkpoint: its product with its own drawn values, and its norm
  steps              loss and gradient norm of six steps of gradient descent with `learning_rate`
  autocast, bfloat16 loss in float32 under torch.autocast and in bfloat16, and the logits' error: root mean square,
                     relative to that of the exact logits
All but the last are float64 throughout: norms, softmax and loss, too, which transformers computes in float32.

A drawn value is 24 bits of MurmurHash3's finalizer over the place and the name. A matrix has 4 initializer_range times
such a value, which is from -1/2 to 1/2. A vector has half of it beside what transformers starts it with, 0 or 1.

The files here: transformers 5.17.0, torch 2.11.0 (text parts, OLMo 3, Ministral 3, EXAONE 4: 5.24.0, 2.15.0).
"""
import json
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (Cohere2Config, Cohere2ForCausalLM, Exaone4Config, Exaone4ForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3Config,
                          Gemma3ForCausalLM, Gemma3ForConditionalGeneration, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM,
                          GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, Ministral3Config,
                          Ministral3ForCausalLM, Mistral3Config, Mistral3ForConditionalGeneration, Olmo2Config,
                          Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2MoeConfig, Qwen2MoeForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM, StableLmConfig, StableLmForCausalLM,
                          Starcoder2Config, Starcoder2ForCausalLM)

from families import check_routing, clear_batch
from models import make_batch, make_cases, rope, saved_gradients

STEPS = 6


def drawn_bits(name, count):
    bits = np.arange(count, dtype=np.uint64) * 0x9E3779B1 + zlib.crc32(name.encode()) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits = (bits ^ bits >> np.uint64(shift)) * factor & 0xFFFFFFFF
    return torch.from_numpy((bits >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5)


def drawn_like(name, start, initializer_range):
    values = drawn_bits(name, start.numel()).view(start.shape)
    if start.dim() > 1:
        return (values * (4 * initializer_range)).to(start.dtype)
    assert start.unique().numel() == 1, f"{name} starts with different values"
    return (start.double() + values / 2).to(start.dtype)


def module_name(name):
    """Files have another name for a text model that stands beside a vision tower."""
    return name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head.", "lm_head.")


def save_drawn(folder, cls, config):
    cls(config).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "model.safetensors"
    spread = config.get_text_config().initializer_range
    tensors = load_file(path)
    for name, start in tensors.items():
        if not name.startswith(("vision_tower.", "multi_modal_projector.")):
            tensors[name] = drawn_like(module_name(name), start, spread)
    save_file(tensors, path, metadata={"format": "pt"})


class Exact(torch.overrides.TorchFunctionMode):
    """float64 stays float64, where a model asks for float32."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = dict(options or {})
        exact = isinstance(arguments[0], torch.Tensor) and arguments[0].dtype == torch.float64 if arguments else False
        if exact and function in (torch.Tensor.to, torch.Tensor.float, torch.Tensor.type_as):
            return arguments[0]
        if exact and options.get("dtype") == torch.float32:
            options["dtype"] = torch.float64
        return function(*arguments, **options)


def loss_of(logits, labels):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def digest(values, name):
    flat = values.detach().flatten()
    return [(flat @ drawn_bits(name, flat.numel())).item(), flat.norm().item()]


def rounded(value):
    """11 digits: far below every tolerance."""
    if isinstance(value, float):
        return float(f"{value:.11g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def exact_golden(model, ids, mask, labels, learning_rate, **images):
    golden = {"input_ids": ids.tolist(), "attention_mask": mask.tolist(), "labels": labels.tolist(),
              "learning_rate": learning_rate, "steps": []}
    parameters = dict(model.named_parameters())
    for step in range(STEPS):
        model.zero_grad()
        with Exact():
            output = model(input_ids=ids, attention_mask=mask, use_cache=False, **images)
            logits, loss = output.logits, loss_of(output.logits, labels)
            if getattr(output, "aux_loss", None) is not None:
                loss = loss + model.config.router_aux_loss_coef * output.aux_loss
            loss.backward()
        parameters = {name: parameter for name, parameter in parameters.items() if parameter.grad is not None}
        gradients = [parameter.grad for parameter in parameters.values()]
        assert all(values.dtype == torch.float64 for values in [logits, loss, *gradients])
        if step == 0:
            exact = logits.detach()[mask == 1]
            golden["logits"] = [digest(row, "logits") for row in exact]
            golden["gradients"] = {module_name(name): digest(gradient, module_name(name))
                                   for name, gradient in saved_gradients(model).items()}
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm().item()
        golden["steps"].append([loss.item(), norm])
        with torch.no_grad():
            for parameter in parameters.values():
                parameter -= learning_rate * parameter.grad
    return golden, exact


def half_golden(model, exact, ids, mask, labels, autocast, **images):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = model(input_ids=ids, attention_mask=mask, use_cache=False, **images)
    loss = loss_of(output.logits.float(), labels)
    if getattr(output, "aux_loss", None) is not None:
        loss = loss + model.config.router_aux_loss_coef * output.aux_loss
    error = (output.logits[mask == 1].double() - exact).norm() / exact.norm()
    return {"loss": loss.item(), "error": error.item()}


def write_drawn(folder, golden):
    text = json.dumps(rounded(golden), separators=(",", ":"))
    (folder / "golden.json").write_text(text.replace('],"', '],\n"') + "\n")
    print(f"{folder.name}: losses {[round(loss, 4) for loss, _ in golden['steps']]}, {len(text)} bytes")


def make_case(folder, case, seed):
    cls, config, length, options = case
    options = dict(options)
    learning_rate = options.pop("learning_rate", 0.05)
    batch = make_batch(config.get_text_config().vocab_size, length, seed)
    with tempfile.TemporaryDirectory() as temporary:
        save_drawn(Path(temporary), cls, config)
        shutil.copy(Path(temporary) / "config.json", folder)
        load = lambda dtype: cls.from_pretrained(temporary, dtype=dtype, **options).eval()
        if hasattr(config, "num_experts"):
            batch = clear_batch(load(torch.float32), *batch, seed)
            check_routing(Path(temporary), cls, *batch[:2], config.num_experts_per_tok, options)
        golden, exact = exact_golden(load(torch.float64), *batch, learning_rate)
        golden["autocast"] = half_golden(load(torch.float32), exact, *batch, True)
        golden["bfloat16"] = half_golden(load(torch.bfloat16), exact, *batch, False)
    write_drawn(folder, golden)


TOKENS = dict(vocab_size=47, bos_token_id=None, eos_token_id=None, initializer_range=0.25)
COMMON = dict(**TOKENS, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64)
ODD = {**COMMON, "vocab_size": 41, "hidden_size": 18, "intermediate_size": 13, "num_attention_heads": 3,
       "num_key_value_heads": 1}

EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12)
ODD_EXPERTS = dict(num_hidden_layers=3, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=11, decoder_sparse_step=2,
                   output_router_logits=True, router_aux_loss_coef=0.05, tie_word_embeddings=True, pad_token_id=0)
TOWER = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)
LOOP = dict(experts_implementation="eager")  # grouped_mm is blind to autocast
EAGER = dict(attn_implementation="eager")

# name -> (class, configuration, sequence length, options of from_pretrained, and the learning rate)
CASES = {
    "olmo2_plain": (Olmo2ForCausalLM, Olmo2Config(**COMMON, pad_token_id=None), 14, {}),
    "olmo2_odd_sizes": (Olmo2ForCausalLM, Olmo2Config(**{
        **ODD, "hidden_size": 17, "head_dim": 6, "attention_bias": True, "tie_word_embeddings": True, "pad_token_id": 0,
        "rope_parameters": rope("linear", factor=4.0)}), 13, {}),

    "olmo3_plain": (Olmo3ForCausalLM, Olmo3Config(**COMMON, sliding_window=5, pad_token_id=None, layer_types=[
        "sliding_attention", "full_attention"]), 14, {}),
    # As published: only the layers without a window have scaled positions.
    "olmo3_odd_sizes": (Olmo3ForCausalLM, Olmo3Config(**{
        **ODD, "hidden_size": 17, "head_dim": 6, "num_hidden_layers": 4, "sliding_window": 4, "attention_bias": True,
        "tie_word_embeddings": True, "pad_token_id": 0, "rope_theta": 300.0, "rope_scaling": {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 1.2}}), 13, dict(learning_rate=0.01)),

    "ministral3_plain": (Ministral3ForCausalLM, Ministral3Config(**COMMON, head_dim=8, pad_token_id=None), 14, {}),
    # Rows longer than those of pre-training, where queries grow.
    "ministral3_odd_sizes": (Ministral3ForCausalLM, Ministral3Config(**{
        **ODD, "head_dim": 10, "sliding_window": 7, "tie_word_embeddings": True, "pad_token_id": 0, "rope_parameters": rope(
            "yarn", factor=8.0, original_max_position_embeddings=4, llama_4_scaling_beta=0.5, beta_fast=16.0)}), 13, {}),

    "smollm3_plain": (SmolLM3ForCausalLM, SmolLM3Config(
        **COMMON, no_rope_layer_interval=2, pad_token_id=None), 14, {}),
    "smollm3_odd_sizes": (SmolLM3ForCausalLM, SmolLM3Config(**{
        **ODD, "hidden_size": 17, "head_dim": 6, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1], "sliding_window": 5,
        "use_sliding_window": True, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False,
        "pad_token_id": 3}), 13, {}),

    "starcoder2_plain": (Starcoder2ForCausalLM, Starcoder2Config(**COMMON), 14, {}),
    "starcoder2_odd_sizes": (Starcoder2ForCausalLM, Starcoder2Config(**{
        **ODD, "hidden_size": 17, "head_dim": 6, "sliding_window": 4, "use_bias": False, "hidden_act": "gelu",
        "norm_epsilon": 1e-3, "tie_word_embeddings": False, "pad_token_id": 0}), 13, {}),

    "stablelm_plain": (StableLmForCausalLM, StableLmConfig(**{**COMMON, "num_attention_heads": 2}), 14, {}),
    "stablelm_odd_sizes": (StableLmForCausalLM, StableLmConfig(**{
        **ODD, "use_parallel_residual": True, "use_qkv_bias": True, "tie_word_embeddings": True, "layer_norm_eps": 1e-3,
        "rope_parameters": rope("default", partial_rotary_factor=0.7)}), 13, {}),

    "phi3_plain": (Phi3ForCausalLM, Phi3Config(**COMMON, pad_token_id=None), 14, {}),
    # Rows longer than those of pre-training.
    "phi3_odd_sizes": (Phi3ForCausalLM, Phi3Config(**{
        **ODD, "hidden_size": 24, "sliding_window": 5, "tie_word_embeddings": True, "pad_token_id": 0,
        "original_max_position_embeddings": 8, "rope_parameters": rope(
            "longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 2.5, 6.0])}), 13, {}),

    "gpt2_plain": (GPT2LMHeadModel, GPT2Config(
        **TOKENS, n_embd=16, n_layer=2, n_head=4, n_positions=64), 14, {}),
    "gpt2_odd_sizes": (GPT2LMHeadModel, GPT2Config(**{
        **TOKENS, "vocab_size": 41, "n_embd": 18, "n_inner": 13, "n_layer": 3, "n_head": 3, "n_positions": 13,
        "activation_function": "gelu", "scale_attn_weights": False, "layer_norm_epsilon": 1e-3,
        "tie_word_embeddings": False}), 13, {}),

    "gpt_neox_plain": (GPTNeoXForCausalLM, GPTNeoXConfig(
        **{**TOKENS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}), 14, {}),
    "gpt_neox_odd_sizes": (GPTNeoXForCausalLM, GPTNeoXConfig(**{
        **TOKENS, "vocab_size": 41, "hidden_size": 18, "intermediate_size": 13, "num_hidden_layers": 2,
        "num_attention_heads": 3, "use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new",
        "tie_word_embeddings": True, "rope_parameters": rope("default", partial_rotary_factor=1.0)}), 13, {}),

    "gemma_plain": (GemmaForCausalLM, GemmaConfig(**COMMON, head_dim=8, pad_token_id=None), 14, {}),
    "gemma_odd_sizes": (GemmaForCausalLM, GemmaConfig(**{
        **ODD, "head_dim": 10, "attention_bias": True, "tie_word_embeddings": False, "pad_token_id": 0,
        "hidden_act": "gelu"}), 13, {}),
    # Stock scaled_dot_product_attention, which transformers takes if it is not told otherwise, leaves out the cap.
    "gemma2_plain": (Gemma2ForCausalLM, Gemma2Config(
        **COMMON, head_dim=8, query_pre_attn_scalar=8, pad_token_id=None), 14, EAGER),
    "gemma2_odd_sizes": (Gemma2ForCausalLM, Gemma2Config(**{
        **ODD, "head_dim": 10, "sliding_window": 5, "query_pre_attn_scalar": 7, "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.5, "attention_bias": True, "tie_word_embeddings": False, "pad_token_id": 0,
        "layer_types": ["full_attention", "sliding_attention"]}), 13, EAGER),

    # As published: which layers slide follows from sliding_window_pattern.
    "gemma3_plain": (Gemma3ForCausalLM, Gemma3TextConfig(
        **COMMON, head_dim=8, query_pre_attn_scalar=8, sliding_window=5, sliding_window_pattern=2, pad_token_id=None,
        ), 14, {}),
    "gemma3_odd_sizes": (Gemma3ForCausalLM, Gemma3TextConfig(**{
        **ODD, "head_dim": 6, "query_pre_attn_scalar": 5, "sliding_window": 4, "final_logit_softcapping": 2.0,
        "tie_word_embeddings": False, "pad_token_id": 0, "layer_types": ["full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": rope("linear", factor=8.0),
                            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}}), 13, {}),

    # A text model beside a vision tower.
    "gemma3_text_part": (Gemma3ForConditionalGeneration, Gemma3Config(
        vision_config=TOWER, mm_tokens_per_image=4, image_token_index=46, text_config=dict(
            COMMON, head_dim=8, query_pre_attn_scalar=8, sliding_window=5, sliding_window_pattern=2, pad_token_id=None)), 14, {}),
    "mistral3_text_part": (Mistral3ForConditionalGeneration, Mistral3Config(
        vision_config=dict(TOWER, model_type="pixtral"), image_token_index=40, spatial_merge_size=1,
        tie_word_embeddings=False, text_config=dict(
            ODD, model_type="mistral", head_dim=10, sliding_window=None)), 13, {}),

    "cohere2_plain": (Cohere2ForCausalLM, Cohere2Config(
        **COMMON, sliding_window=5, sliding_window_pattern=2, logit_scale=0.5, pad_token_id=None), 14, {}),
    "cohere2_odd_sizes": (Cohere2ForCausalLM, Cohere2Config(**{
        **ODD, "sliding_window": 4, "attention_bias": True, "tie_word_embeddings": False, "pad_token_id": 0,
        "layer_types": ["full_attention", "sliding_attention"]}), 13, {}),

    "exaone4_plain": (Exaone4ForCausalLM, Exaone4Config(**COMMON, sliding_window=5, sliding_window_pattern=2), 14, {}),
    # As in the smaller model, no layer has a window, and all have positions.
    "exaone4_odd_sizes": (Exaone4ForCausalLM, Exaone4Config(**{
        **ODD, "hidden_size": 17, "head_dim": 6, "sliding_window": None, "layer_types": ["full_attention"] * 2,
        "tie_word_embeddings": True, "pad_token_id": 0, "rope_parameters": rope(
            "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)}), 13,
        dict(learning_rate=0.01)),

    "qwen2_moe_plain": (Qwen2MoeForCausalLM, Qwen2MoeConfig(**{
        **COMMON, **EXPERTS, "shared_expert_intermediate_size": 10, "mlp_only_layers": [0]}), 14, LOOP),
    "qwen2_moe_odd_sizes": (Qwen2MoeForCausalLM, Qwen2MoeConfig(**{
        **ODD, **ODD_EXPERTS, "num_key_value_heads": 3, "shared_expert_intermediate_size": 7, "norm_topk_prob": True,
        "qkv_bias": False, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}), 13, LOOP),
    "qwen3_moe_plain": (Qwen3MoeForCausalLM, Qwen3MoeConfig(**{**COMMON, **EXPERTS, "norm_topk_prob": True}), 14, LOOP),
    "qwen3_moe_odd_sizes": (Qwen3MoeForCausalLM, Qwen3MoeConfig(**{
        **ODD, **ODD_EXPERTS, "hidden_size": 17, "head_dim": 6, "attention_bias": True, "use_sliding_window": True,
        "sliding_window": 5}), 13, LOOP),
}


if __name__ == "__main__":
    make_cases(CASES, {name: zlib.crc32(name.encode()) % 10000 for name in CASES}, make_case, __doc__)
