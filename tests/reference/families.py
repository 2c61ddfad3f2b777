#!/usr/bin/env python3
"""Golden files for tests/model of the families beyond llama, mistral and granite, in the layout of models.py.

usage: python3 tests/reference/families.py [--output FOLDER] [CASE...]

Beside what models.py writes, a mixture of experts has
  aux.loss                     the load-balancing loss alone, before router_aux_loss_coef, if output_router_logits
  autocast.eager_experts.loss, autocast.eager_experts.logits
                               autocast with experts_implementation="eager". transformers' default, grouped_mm, is blind to
                               autocast: autocast.logits have experts in float32 products, these have them in bfloat16.
Cases of odd sizes have eager experts throughout: grouped_mm wants rows of a multiple of 16 bytes.
`loss` is what Hugging Face returns, so it holds router_aux_loss_coef * aux.loss where output_router_logits is true.
autocast.logits and bf16.logits are stored in bfloat16 where that loses nothing.

Tokens of mixtures are chosen so that no routing decision is near a tie: float32, autocast and bfloat16 choose alike.

Names in the saved files, and so in grad.*. save_pretrained writes the names of the published checkpoints:
  qwen2, qwen3      as llama; q_proj, k_proj, v_proj of qwen2 have biases; qwen3 has self_attn.{q,k}_norm.weight [head_dim]
  mixtral           block_sparse_moe.gate.weight [E, H], block_sparse_moe.experts.N.{w1 [I, H], w2 [H, I], w3 [I, H]}.weight;
                    in memory mlp.experts.gate_up_proj [E, 2I, H] (w1 over w3) and mlp.experts.down_proj [E, H, I]
  granitemoe        block_sparse_moe.router.layer.weight [E, H], block_sparse_moe.input_linear.weight [E, 2I, H],
                    block_sparse_moe.output_linear.weight [E, H, I]; in memory ...router.weight, ...experts.{gate_up,down}_proj
  granitemoeshared  the same and shared_mlp.input_linear.weight [2S, H], shared_mlp.output_linear.weight [H, S]
  granitemoehybrid  the same and mamba.{in_proj,conv1d,out_proj,norm}.*, mamba.{A_log,D,dt_bias}
  gpt_bigcode       transformer.h.N.{ln_1,ln_2,attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj}.{weight,bias}, transformer.{wte,wpe}
  bloom             transformer.h.N.self_attention.{query_key_value,dense}, transformer.h.N.mlp.dense_{h_to_4h,4h_to_h}
  gpt_oss           mlp.router.{weight,bias}, mlp.experts.gate_up_proj [E, H, 2I] (gate and up interleaved), ..._bias [E, 2I],
                    mlp.experts.down_proj [E, I, H], ..._bias [E, H], self_attn.sinks [heads]; as MXFP4 the two matrices are
                    ..._blocks [E, out, in/32, 16] and ..._scales [E, out, in/32], and grad.* keep the names without them

The files here: transformers 5.23.0, torch 2.15.0, without the mamba_ssm and causal_conv1d kernels.
"""
import json
import zlib

import torch
from safetensors.torch import load_file, save_file
from transformers import (BloomConfig, BloomForCausalLM, GPTBigCodeConfig, GPTBigCodeForCausalLM, GptOssConfig,
                          GptOssForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM, GraniteMoeHybridConfig,
                          GraniteMoeHybridForCausalLM, GraniteMoeSharedConfig, GraniteMoeSharedForCausalLM, MixtralConfig,
                          MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

from models import IGNORED, make_batch, make_cases, rope, run, run_case, save_case, write_golden

TOKENS = dict(vocab_size=48, bos_token_id=None, eos_token_id=None, initializer_range=0.25)
COMMON = dict(**TOKENS, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5)
ODD = {**COMMON, "vocab_size": 41, "hidden_size": 18, "intermediate_size": 13, "num_hidden_layers": 3,
       "num_attention_heads": 3, "num_key_value_heads": 1}
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16)
EXPERTS = dict(intermediate_size=16, num_local_experts=4, num_experts_per_tok=2)
ODD_EXPERTS = {**ODD, "intermediate_size": 11, "num_local_experts": 5, "num_experts_per_tok": 3}
BALANCED = dict(output_router_logits=True, router_aux_loss_coef=0.05)
MULTIPLIERS = dict(embedding_multiplier=12.0, attention_multiplier=0.0625, residual_multiplier=0.22, logits_scaling=6.0,
                   rope_parameters=rope("default") | {"rope_theta": 300000.0}, attention_bias=True,
                   tie_word_embeddings=True, pad_token_id=0)
MAMBA = dict(mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_chunk_size=8, shared_intermediate_size=12,
             attention_multiplier=0.25)

# name -> (class, configuration, sequence length, keys that the published config.json has in another form)
CASES = {
    "qwen2_plain": (Qwen2ForCausalLM, Qwen2Config(**COMMON), 20, {}),
    # As published: which layers slide follows from max_window_layers.
    "qwen2_every_option": (Qwen2ForCausalLM, Qwen2Config(**{
        **COMMON, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1,
        "tie_word_embeddings": True, "rope_parameters": YARN, "pad_token_id": 0}), 20, {"layer_types": None}),
    "qwen2_odd_sizes": (Qwen2ForCausalLM, Qwen2Config(**ODD), 19, {}),
    "qwen3_plain": (Qwen3ForCausalLM, Qwen3Config(**COMMON, head_dim=8), 20, {}),
    "qwen3_every_option": (Qwen3ForCausalLM, Qwen3Config(**{
        **COMMON, "num_hidden_layers": 3, "head_dim": 8, "attention_bias": True, "use_sliding_window": True,
        "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "tie_word_embeddings": True, "rope_parameters": YARN, "pad_token_id": 0}), 20, {}),
    "qwen3_odd_sizes": (Qwen3ForCausalLM, Qwen3Config(**{**ODD, "hidden_size": 17}, head_dim=6), 19, {}),

    "mixtral_plain": (MixtralForCausalLM, MixtralConfig(**{**COMMON, **EXPERTS}), 20, {}),
    "mixtral_every_option": (MixtralForCausalLM, MixtralConfig(**{
        **COMMON, **EXPERTS, **BALANCED, "head_dim": 8, "sliding_window": 5, "tie_word_embeddings": True,
        "rope_parameters": YARN, "pad_token_id": 0}), 20, {}),
    "mixtral_odd_sizes": (MixtralForCausalLM, MixtralConfig(**{
        **ODD_EXPERTS, "hidden_size": 17, "num_hidden_layers": 2, "head_dim": 6, "output_router_logits": True}), 19, {}),

    "granitemoe_plain": (GraniteMoeForCausalLM, GraniteMoeConfig(**{
        **COMMON, **EXPERTS, "attention_multiplier": 0.25}), 20, {}),
    "granitemoe_every_option": (GraniteMoeForCausalLM, GraniteMoeConfig(**{
        **COMMON, **EXPERTS, **BALANCED, **MULTIPLIERS}), 20, {}),
    "granitemoe_odd_sizes": (GraniteMoeForCausalLM, GraniteMoeConfig(**{
        **ODD_EXPERTS, "num_hidden_layers": 2, "attention_multiplier": 0.3, "output_router_logits": True}), 19, {}),
    "granitemoeshared_plain": (GraniteMoeSharedForCausalLM, GraniteMoeSharedConfig(**{
        **COMMON, **EXPERTS, "attention_multiplier": 0.25, "shared_intermediate_size": 12}), 20, {}),
    "granitemoeshared_every_option": (GraniteMoeSharedForCausalLM, GraniteMoeSharedConfig(**{
        **COMMON, **EXPERTS, **BALANCED, **MULTIPLIERS, "shared_intermediate_size": 20}), 20, {}),
    "granitemoeshared_odd_sizes": (GraniteMoeSharedForCausalLM, GraniteMoeSharedConfig(**{
        **ODD_EXPERTS, "num_hidden_layers": 2, "attention_multiplier": 0.3, "shared_intermediate_size": 7}), 19, {}),

    "gpt_bigcode_plain": (GPTBigCodeForCausalLM, GPTBigCodeConfig(
        **TOKENS, n_positions=32, n_embd=16, n_layer=2, n_head=4), 20, {}),
    # granite-20b-code-instruct has the exact gelu, granite-20b-code-base the approximation by tanh.
    "gpt_bigcode_every_option": (GPTBigCodeForCausalLM, GPTBigCodeConfig(
        **TOKENS, n_positions=20, n_embd=16, n_layer=3, n_head=4, n_inner=40, activation_function="gelu",
        layer_norm_epsilon=1e-3, scale_attn_weights=False, tie_word_embeddings=False, pad_token_id=0), 20, {}),
    "gpt_bigcode_odd_sizes": (GPTBigCodeForCausalLM, GPTBigCodeConfig(
        **{**TOKENS, "vocab_size": 41}, n_positions=23, n_embd=15, n_layer=2, n_head=3, n_inner=31), 19, {}),
    "gpt_bigcode_multi_head": (GPTBigCodeForCausalLM, GPTBigCodeConfig(
        **TOKENS, n_positions=32, n_embd=16, n_layer=2, n_head=4, multi_query=False), 20, {}),

    "bloom_plain": (BloomForCausalLM, BloomConfig(**TOKENS, hidden_size=16, n_layer=2, n_head=4), 20, {}),
    "bloom_every_option": (BloomForCausalLM, BloomConfig(
        **TOKENS, hidden_size=24, n_layer=2, n_head=6, apply_residual_connection_post_layernorm=True,
        slow_but_exact=True, layer_norm_epsilon=1e-3, tie_word_embeddings=False, pad_token_id=3), 20, {}),
    "bloom_odd_sizes": (BloomForCausalLM, BloomConfig(
        **{**TOKENS, "vocab_size": 41}, hidden_size=15, n_layer=3, n_head=3), 19, {}),

    # Granite 4.0 h-tiny and h-small; config.json as published.
    "granitemoehybrid_plain": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(**{
        **COMMON, **EXPERTS, **MAMBA, "layer_types": ["mamba", "attention"]}), 20,
        {"layer_types": ["mamba", "attention"], "position_embedding_type": "nope", "time_step_limit": None}),
    "granitemoehybrid_every_option": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(**{
        **COMMON, **EXPERTS, **BALANCED, **MULTIPLIERS, **MAMBA, "attention_multiplier": 0.0625,
        "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"], "position_embedding_type": "rope",
        "mamba_n_groups": 2, "mamba_proj_bias": True, "mamba_conv_bias": True, "time_step_limit": (0.1, 0.5)}), 20, {}),
    "granitemoehybrid_odd_sizes": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(**{
        **ODD_EXPERTS, **MAMBA, "num_hidden_layers": 2, "layer_types": ["attention", "mamba"], "mamba_n_heads": 6,
        "mamba_d_head": 9, "mamba_expand": 3, "mamba_n_groups": 3, "mamba_d_state": 5, "mamba_d_conv": 3,
        "mamba_chunk_size": 7, "mamba_conv_bias": False, "shared_intermediate_size": 7}), 19, {}),
    # Granite 4.0 micro, 350m and 1b.
    "granitemoehybrid_dense": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(**{
        **COMMON, **MAMBA, "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["attention"] * 2,
        "position_embedding_type": "rope", "tie_word_embeddings": True, "shared_intermediate_size": 24}), 20,
        {"layer_types": ["attention"] * 2}),
    # Granite 4.0 h-micro and h-1b.
    "granitemoehybrid_dense_mamba": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(**{
        **COMMON, **MAMBA, "num_hidden_layers": 3, "num_local_experts": 0, "num_experts_per_tok": 0,
        "layer_types": ["mamba", "attention", "mamba"], "tie_word_embeddings": True}), 21,
        {"layer_types": ["mamba", "attention", "mamba"], "position_embedding_type": "nope"}),
    # A chunk longer than the sequence, as all published models have it in short rows.
    "granitemoehybrid_one_chunk": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig(**{
        **COMMON, **MAMBA, "num_local_experts": 0, "num_experts_per_tok": 0, "mamba_chunk_size": 256,
        "layer_types": ["mamba"] * 2, "tie_word_embeddings": True}), 20, {}),

    "gpt_oss_plain": (GptOssForCausalLM, GptOssConfig(**{
        **COMMON, **EXPERTS, "head_dim": 8, "sliding_window": 6, "intermediate_size": 8,
        "rope_parameters": YARN | {"rope_theta": 150000.0, "truncate": False}}), 20, {}),
    "gpt_oss_every_option": (GptOssForCausalLM, GptOssConfig(**{
        **COMMON, **EXPERTS, **BALANCED, "num_hidden_layers": 3, "head_dim": 8, "sliding_window": 4, "swiglu_limit": 1.25,
        "intermediate_size": 8, "num_experts_per_tok": 4, "num_local_experts": 6, "tie_word_embeddings": True,
        "pad_token_id": 0, "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": YARN | {"rope_theta": 150000.0, "beta_fast": 8.0, "beta_slow": 2.0, "truncate": False}}), 20, {}),
    "gpt_oss_odd_sizes": (GptOssForCausalLM, GptOssConfig(**{
        **ODD_EXPERTS, "hidden_size": 17, "num_hidden_layers": 2, "head_dim": 6, "sliding_window": 7,
        "attention_bias": False, "rope_parameters": rope("default")}), 19, {}),
    # As published: experts in blocks of 32 values of four bits, one scale each. grad.* are those of the decoded experts.
    "gpt_oss_mxfp4": (GptOssForCausalLM, GptOssConfig(**{
        **COMMON, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 6,
        "tie_word_embeddings": True,
        "rope_parameters": YARN | {"rope_theta": 150000.0, "truncate": False}}), 20,
        {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}),
}


def randomise(model):
    """Hugging Face starts norms at 1 and biases at 0, where mistakes cancel, and decays that forget within two tokens."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            leaf = name.rsplit(".", 1)[-1]
            if leaf == "A_log":
                parameter.copy_(torch.linspace(0.05, 2.0, len(parameter)).log() + torch.randn_like(parameter) * 0.1)
            elif leaf == "dt_bias":
                parameter.copy_(torch.randn_like(parameter) * 0.5 - 1.5)
            elif leaf == "D" or (parameter.dim() == 1 and leaf == "weight"):
                parameter.copy_(torch.randn_like(parameter) * 0.2 + 1.0)
            elif leaf == "sinks":
                parameter.normal_()
            elif parameter.dim() == 1 or leaf.endswith("_bias"):
                parameter.copy_(torch.randn_like(parameter) * 0.2)


def routing(model, ids, mask):
    """Router logits of each layer [layers, B, S, E]."""
    with torch.no_grad():
        out = model.model(input_ids=ids, attention_mask=mask, output_router_logits=True, use_cache=False)
    return torch.stack(out.router_logits).float().reshape(len(out.router_logits), *ids.shape, -1)


def margins(logits, top_k):
    """How far the last chosen expert is ahead of the first that is not, in deviations of the layer's logits; the least
    over the layers, [B, S]."""
    ordered = logits.sort(dim=-1, descending=True).values
    gap = ordered[..., top_k - 1] - ordered[..., top_k]
    return (gap / logits.std(dim=(1, 2, 3), keepdim=True).squeeze(-1)).amin(dim=0)


def choose_tokens(model, ids, mask, generator):
    """Replaces tokens, from left to right, by ones whose routing is clear in every layer."""
    top_k, vocab = model.config.num_experts_per_tok, model.config.vocab_size
    for position in range(ids.shape[1]):
        for row in range(ids.shape[0]):
            if mask[row, position] == 0:
                continue
            tries = ids[row, :position + 1].repeat(vocab, 1)
            tries[:, -1] = torch.arange(vocab)
            clear = margins(routing(model, tries, torch.ones_like(tries)), top_k)[:, -1]
            best = clear.topk(5).indices
            ids[row, position] = best[torch.randint(len(best), (1,), generator=generator)]


def clear_batch(model, ids, mask, labels, seed):
    choose_tokens(model, ids, mask, torch.Generator().manual_seed(seed))
    labels = torch.where(labels == IGNORED, labels, ids)
    return ids, mask, labels


def check_routing(folder, cls, ids, mask, top_k, options):
    def chosen(dtype, autocast):
        model = cls.from_pretrained(folder, dtype=dtype, **options).eval()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = routing(model, ids, mask)[:, mask == 1]
        return logits.topk(top_k, dim=-1).indices.sort(dim=-1).values

    exact = chosen(torch.float32, False)
    for other in chosen(torch.float32, True), chosen(torch.bfloat16, False):
        assert torch.equal(exact, other), f"{folder.name}: {(exact != other).any(-1).sum()} decisions differ in bfloat16"
    return exact.flatten(1).T.flatten().bincount()


def publish(folder, changes):
    """Gives keys of config.json the form that they have in published checkpoints; None: the key is absent there."""
    config = json.loads((folder / "config.json").read_text())
    for key, value in changes.items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def pack_experts(folder, generator):
    """Random codes and scales in place of the experts' weights, of some size as those. An expert's matrix [in, out] is stored
    by output row: blocks [E, out, in / 32, 16], two codes to the byte, and scales [E, out, in / 32]."""
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj") and ".experts." in name]:
        experts, inputs, outputs = tensors.pop(name).shape
        shape = (experts, outputs, inputs // 32)
        tensors[name + "_blocks"] = torch.randint(256, (*shape, 16), dtype=torch.uint8, generator=generator)
        tensors[name + "_scales"] = torch.randint(121, 125, shape, dtype=torch.uint8, generator=generator)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def narrow(tensor):
    half = tensor.to(torch.bfloat16)
    return half if torch.equal(half.to(tensor.dtype), tensor) else tensor


def make_case(folder, case, seed):
    cls, config, length, changes = case
    save_case(folder, cls, config, {}, seed, randomise)
    publish(folder, changes)
    if "quantization_config" in changes:
        pack_experts(folder, torch.Generator().manual_seed(seed))
    batch = make_batch(config.vocab_size, length, seed)
    experts = getattr(config, "num_local_experts", 0)
    options = dict(experts_implementation="eager") if experts and folder.name.endswith("odd_sizes") else {}
    if experts:
        model = cls.from_pretrained(folder, dtype=torch.float32, **options).eval()
        batch = clear_batch(model, *batch, seed)
        counts = check_routing(folder, cls, *batch[:2], config.num_experts_per_tok, options)
        print("tokens per expert", counts.tolist())
    golden = {name.removesuffix("_blocks"): value for name, value in run_case(folder, cls, *batch, **options).items()}
    if experts:
        eager = cls.from_pretrained(folder, dtype=torch.float32, experts_implementation="eager").eval()
        with torch.no_grad():
            if config.output_router_logits:
                ids, mask, labels = batch
                golden["aux.loss"] = eager(input_ids=ids, attention_mask=mask, labels=labels).aux_loss.reshape(1)
            with torch.autocast("cpu", torch.bfloat16):
                loss, logits = run(eager, *batch)
        golden["autocast.eager_experts.loss"], golden["autocast.eager_experts.logits"] = loss, logits
    for name in golden:
        if name.endswith(".logits"):
            golden[name] = narrow(golden[name])
    write_golden(folder, golden)


if __name__ == "__main__":
    make_cases(CASES, {name: zlib.crc32(name.encode()) % 10000 for name in CASES}, make_case, __doc__)
