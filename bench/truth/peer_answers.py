#!/usr/bin/env python3
"""A peer's answers to the questions of published_peers.py, which runs it with that peer's Python: usage: peer_answers.py PEER

JSON of questions from stdin, the peer's version and its answers to stdout: GiB of a GPU, whether it fits, seconds of a step, each
null where the peer does not say. A refusal goes to stderr.
"""
import importlib.metadata
import json
import sys

GPUS = {  # names of ftuneai, fitcheck-llm, kavier
    "NVIDIA-A100-SXM4-80GB": ("A100-80GB", "a100-80", "NVIDIA-A100-SXM4-80GB"),
    "NVIDIA-A100-SXM4-40GB": ("A100-40GB", "a100-40", "A100-40GB"), "NVIDIA-H200": ("H200-141GB", "h200", "H200 SXM"),
    "NVIDIA-H100-80GB-HBM3": ("H100-80GB", "h100", "H100-SXM"), "NVIDIA-L4": ("L4-24GB", "l4", "L4"),
    "Tesla-T4": ("T4-16GB", "t4", ""), "Tesla-V100-SXM2-32GB": ("V100-32GB", "", ""), "NVIDIA-A10": ("", "a10", "A10"),
    "NVIDIA-A10G": ("A10G-24GB", "", ""), "L40S": ("", "l40s", "L40S"), "NVIDIA-B200": ("", "b200", ""),
    "NVIDIA-GeForce-RTX-4090": ("RTX-4090-24GB", "4090", ""), "NVIDIA-GeForce-RTX-5090": ("", "5090", ""),
    "NVIDIA-GeForce-RTX-3090": ("RTX-3090-24GB", "3090", ""), "NVIDIA-RTX-A6000": ("", "a6000", "")}
KINDS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def need(value):
    if not value:
        raise ValueError("the peer has no such GPU, data type, optimizer or division")
    return value


def gpu_of(asked, peer):
    return GPUS.get(asked["gpu"], ("", "", ""))[peer]


# Peers, each in its own Python: a question to GiB of a GPU, whether it fits, and seconds of a step.

def canifinetune(asked):
    from canifinetune.estimator import EstimateRequest, estimate
    need(asked["gpus"] == 1)
    found = estimate(EstimateRequest(
        override=asked["config"] | {"family": asked["config"]["model_type"], "total_params": asked["parameters"]},
        model_id=asked["model"], use_network=False, gpu_vram_gb=asked["gib"], method=asked["method"],
        seq_len=need(asked["padded_to"]), micro_batch_size=asked["batch"], lora_rank=asked["rank"] or 16,
        lora_target_scope={7: "all_linear", 2: "conservative"}.get(len(asked["targets"]), "attention"),
        attention_implementation="eager" if asked["eager"] else "flash_attention_2",
        base_dtype=need(KINDS.get(asked["dtype"])), gradient_checkpointing=asked["checkpointing"],
        optimizer=need({"AdamW": "adamw_torch"}.get(asked["optimizer"], "8" in asked["optimizer"] and "adamw_8bit"))))
    return found.memory.total_estimated_gb - found.memory.safety_margin_gb, found.feasible != "no", None


def ftuneai(asked):
    from ftuneai import Estimator, hub, loader
    gpu = need(gpu_of(asked, 0))
    sharding = {"none": "none", "DDP": "none", "FULL_SHARD": "fsdp", "ZERO3": "zero_3", "ZERO2": "zero_2", "ZERO1": "zero_1"}
    hub.fetch_model_config = lambda name: asked["config"]
    loader.load_models()["asked"] = hub.resolve_model_from_hub("asked")
    loader.load_models()["asked"].parameters = asked["parameters"]
    make = lambda length: Estimator(
        model="asked", method=asked["method"], batch_size=asked["batch"], seq_length=length, num_gpus=asked["gpus"],
        gradient_checkpointing=asked["checkpointing"], lora_rank=asked["rank"] or 16, flash_attention=not asked["eager"],
        optimizer="adam_8bit" if "8" in asked["optimizer"] else "adamw", sharding=sharding[asked["strategy"]],
        lora_target={7: "all_linear", 2: "attention"}.get(len(asked["targets"]), "attention_all"))
    rows, longest = asked["batch"] * asked["accumulation"] * asked["gpus"], asked["padded_to"] and make(asked["padded_to"])
    steps = 10**6  # hours are rounded to two digits
    hours = asked["length"] and make(asked["length"]).estimate_time(gpu, rows * steps, 1, asked["gpus"]).total_hours
    return (longest and longest.estimate_memory().total_gb or None, longest and longest.check_gpu_fit([gpu])[0].fits,
            hours * 3600 / steps or None)


def fitcheck_llm(asked):
    from fitcheck import config_parser, estimator, gpu_db
    need(asked["gpus"] == 1)
    config_parser._reject_unsupported(asked["config"], asked["model"])
    fields = config_parser._parse_fields(asked["config"])
    count = config_parser._reconcile_param_count(asked["model"], asked["exact"], config_parser._count_params(fields))
    name = gpu_of(asked, 1)
    training = estimator.TrainingConfig(
        precision=need(KINDS.get(asked["dtype"])), quantization="nf4" if asked["method"] == "qlora" else "none",
        batch_size=asked["batch"], seq_len=need(asked["padded_to"]), flash_attn=not asked["eager"],
        lora_targets=asked["targets"] or ["q_proj", "k_proj", "v_proj", "o_proj"],
        lora_rank=None if asked["method"] == "full" else asked["rank"] or 16,
        optimizer="adam8bit" if "8" in asked["optimizer"] else "adamw", grad_checkpoint=asked["checkpointing"])
    gpu = gpu_db.get_gpu(name) if name else gpu_db.get_gpu(vram_mib=int(asked["gib"] * 1024))
    found = estimator.estimate(config_parser.ModelConfig(asked["model"], count, **vars(fields)), training, gpu)
    return found.total_mib / 1024, found.fits, None


def kavier(asked):
    from kavier.sdk.training.core.engine import simulate_full_training
    found = simulate_full_training(
        model_name=asked["twin"], method=asked["method"], gpu_model=need(gpu_of(asked, 2)), number_nodes=asked["nodes"],
        tokens_per_sample=need(asked["length"]), batch_size=asked["batch"], number_gpus=asked["gpus"] // asked["nodes"])
    return None, None, asked["tokens"] / found["train_tokens_per_second"]


def coastline(asked):
    from coastline.sdk.models.workload import WorkloadSpec
    from coastline.sdk.pipeline.feasibility import create_feasibility_checker
    feasible, _ = create_feasibility_checker({"feasibility": "autoconf"}).is_feasible(WorkloadSpec(
        llm_model=asked["twin"], fine_tuning_method=asked["method"], gpu_model=need(gpu_of(asked, 2)),
        tokens_per_sample=need(asked["padded_to"]), batch_size=asked["batch"], gpus_per_node=asked["gpus"] // asked["nodes"],
        number_of_nodes=asked["nodes"]))
    return None, feasible, None


def answer(name):
    """In the peer's Python: JSON of questions from stdin, its version and answers to stdout."""
    peer, answers, out, sys.stdout = globals()[name.replace("-", "_")], [], sys.stdout, sys.stderr  # some print beside it
    for asked in json.load(sys.stdin):
        try:
            answers.append(peer(asked) if asked else (None, None, None))
        except Exception as refused:  # of whatever kind: the peer does not answer
            print(name, asked["model"], asked["gpu"], refused, sep=": ")
            answers.append((None, None, None))
    json.dump([importlib.metadata.version("coastline-recommender" if name == "coastline" else name), answers], out)


if __name__ == "__main__":
    answer(sys.argv[1])
