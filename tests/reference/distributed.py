#!/usr/bin/env python3
"""Golden runs of several ranks: the real Hugging Face Trainer under torch's own DDP and FSDP2, on Gloo.

Ten optimization steps each on the checkpoints, texts and settings of training.py (LoRA: of adapters.py), every rank a
process of its own. DDP is what Trainer wraps by itself. For FSDP2 the model is sharded beforehand, each decoder layer
a unit and the rest the root, and given to Trainer in the way of models that transformers shards while it loads them:
Trainer then wraps nothing and goes through its own FSDP2 path. Batches over ranks are accelerate's BatchSamplerShard,
the loss is averaged over the tokens of all ranks (average_tokens_across_devices), gradients of all micro-batches but
the last wait for the last.

Writes distributed/CASE.json: the case as training.py describes one, ranks, nodes and a ParallelPlan's words; what
Trainer logged at each step; at the end [sum, sum of squares] of each trained parameter, and one of them whole. A case
with autocast bf16 is FSDP2's MixedPrecisionPolicy (parameters gathered in bfloat16, no torch.autocast), under DDP it is
torch.autocast. One with fp16 has both under FSDP2, as accelerate does, and torch's loss scaling, whose verdict on a
gradient's shards is that of all ranks. An empty reduce_dtype is the dtype that gradients are computed in. Writes distributed/order.json too:
for each number of ranks, per rank and micro-batch, which entries of dataset.jsonl it got.

Made with transformers 5.23, accelerate 1.15, peft 0.21, torch 2.15:  python distributed.py [CASE...]
"""
import json
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

import accelerate
import peft
import transformers
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from adapters import FOLDER as ADAPTERS
from adapters import LORA_SETTINGS
from training import FOLDER as TRAINING
from training import MAX_LENGTH, SETTINGS, Recorder, encode, make_collator

FOLDER = Path(__file__).parent / "distributed"
STEPS = 10
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Case:
    model: str
    ranks: int
    strategy: str
    nodes: int = 1
    torch_dtype: str = "float32"
    autocast: str = "no"
    reduce_dtype: str = ""
    checkpointing: bool = False
    adapter: str = ""  # a case of adapters.py
    settings: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)  # what differs from the model's


CASES = {
    # Gradients of every step have to exceed max_grad_norm, also those of granite.
    **{f"{model}-{strategy}-{ranks}": Case(model, ranks, strategy, settings={"max_grad_norm": 0.1})
       for model in ("llama", "llama_all", "granite") for strategy in ("DDP", "FULL_SHARD", "SHARD_GRAD_OP")
       for ranks in (2, 3)},
    "llama-DDP-2-checkpointing": Case("llama", 2, "DDP", checkpointing=True),
    "llama-FULL_SHARD-3-checkpointing": Case("llama", 3, "FULL_SHARD", checkpointing=True),
    "llama-HYBRID_SHARD-4": Case("llama", 4, "HYBRID_SHARD", nodes=2),
    "llama-HYBRID_SHARD_ZERO2-4": Case("llama", 4, "HYBRID_SHARD_ZERO2", nodes=2),
    **{f"llama-lora_qv-{strategy}-{ranks}": Case("llama", ranks, strategy, adapter="llama-lora_qv",
                                                 settings=LORA_SETTINGS)
       for strategy, ranks in (("DDP", 2), ("FULL_SHARD", 2), ("FULL_SHARD", 3))},
    "llama-bfloat16-DDP-2": Case("llama", 2, "DDP", torch_dtype="bfloat16"),
    "llama-bfloat16-FULL_SHARD-2": Case("llama", 2, "FULL_SHARD", torch_dtype="bfloat16"),
    "llama-bfloat16-FULL_SHARD-3-reduce_float32": Case("llama", 3, "FULL_SHARD", torch_dtype="bfloat16",
                                                       reduce_dtype="float32"),
    "llama-autocast_bf16-DDP-2": Case("llama", 2, "DDP", autocast="bf16"),
    "llama-autocast_bf16-FULL_SHARD-2": Case("llama", 2, "FULL_SHARD", autocast="bf16"),
    "llama-autocast_bf16-FULL_SHARD-2-reduce_float32": Case("llama", 2, "FULL_SHARD", autocast="bf16",
                                                            reduce_dtype="float32"),
    "llama-autocast_fp16-DDP-2": Case("llama", 2, "DDP", autocast="fp16"),
    "llama-autocast_fp16-FULL_SHARD-2": Case("llama", 2, "FULL_SHARD", autocast="fp16"),
    "llama-autocast_fp16-SHARD_GRAD_OP-3": Case("llama", 3, "SHARD_GRAD_OP", autocast="fp16"),
    # Loud logits, whose gradients overflow float16 under the first scales: updates that all ranks skip together.
    "granite-autocast_fp16-FULL_SHARD-2": Case("granite", 2, "FULL_SHARD", autocast="fp16",
                                               settings={"optim": "adamw_torch"}, config={"logits_scaling": 0.014}),
}


class OrderKeepingTrainer(Trainer):
    """Trainer, and which entries each of this rank's micro-batches had."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.order = []

    def training_step(self, model, inputs, num_items_in_batch=None):
        self.order.append(inputs.pop("entry").tolist())
        return super().training_step(model, inputs, num_items_in_batch)


def load(case):
    model = AutoModelForCausalLM.from_pretrained(TRAINING / case.model, dtype=DTYPES[case.torch_dtype], **case.config)
    if not case.adapter:
        return model, model.model.layers
    model = PeftModel.from_pretrained(model, ADAPTERS / case.adapter / "initial", is_trainable=True)
    return model, model.base_model.model.model.layers


def shard(case, model, layers):
    """In place: FSDP2 changes the modules' classes and parameters."""
    if case.nodes > 1:
        mesh = init_device_mesh("cpu", (case.nodes, case.ranks // case.nodes), mesh_dim_names=("replicas", "shards"))
    else:
        mesh = init_device_mesh("cpu", (case.ranks,))
    compute_dtype = AUTOCAST.get(case.autocast, DTYPES[case.torch_dtype])
    # Named always: left out it once meant the dtype of the gradients, and means that of the parameters in torch 2.15.
    # Trainer's count of tokens is an input of the model that bfloat16 would round; the others are integers.
    policy = MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=DTYPES.get(case.reduce_dtype, compute_dtype),
                                  cast_forward_inputs=False)
    reshard = case.strategy in ("FULL_SHARD", "HYBRID_SHARD")
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=None if reshard else False)
    base = model.get_base_model() if case.adapter else model
    base._is_distributed_loading_by_transformers = True
    model._is_fsdp_managed_module = True
    model.config.distributed_config = SimpleNamespace(dp_replicate_size=case.nodes, dp_size=case.ranks)


def checksums(model):
    """Name (as in a checkpoint or peft's adapter file) -> (sum, sum of squares), and the first small one whole."""
    sums, whole = {}, None
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        value = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        value, name = value.detach().double(), name.replace(".default.", ".")
        sums[name] = [value.sum().item(), value.square().sum().item()]
        if whole is None and value.numel() <= 128 and (value.dim() == 1 or "lora_A" in name):
            whole = {"name": name, "values": value.flatten().tolist()}
    return sums, whole


def run(case, entries, pad_id):
    settings = {**SETTINGS, **case.settings, "max_steps": STEPS}
    model, layers = load(case)
    if case.strategy != "DDP":
        shard(case, model, layers)
    collate_tokens = make_collator(pad_id)
    collate = lambda batch: {**collate_tokens(batch), "entry": torch.tensor([entry["entry"] for entry in batch])}
    recorder = Recorder()
    arguments = TrainingArguments(output_dir="unused", use_cpu=True, ddp_backend="gloo", logging_steps=1,
                                  save_strategy="no", report_to="none", disable_tqdm=True,
                                  remove_unused_columns=False, gradient_checkpointing=case.checkpointing,
                                  gradient_checkpointing_kwargs={"use_reentrant": False},
                                  bf16=case.autocast == "bf16" and case.strategy == "DDP",
                                  fp16=case.autocast == "fp16", average_tokens_across_devices=True,
                                  **{"optim": "adamw_torch_fused", **settings})
    assert arguments.world_size == case.ranks
    trainer = OrderKeepingTrainer(model=model, args=arguments, train_dataset=entries, data_collator=collate,
                                  callbacks=[recorder])
    if case.autocast == "fp16":  # on a CPU accelerate switches it off; from here on it does as on a GPU
        trainer.accelerator.native_amp, trainer.accelerator.scaler = True, torch.amp.GradScaler("cpu")
    trainer.train()
    wrapped = isinstance(trainer.model_wrapped, torch.nn.parallel.DistributedDataParallel)
    assert wrapped == (case.strategy == "DDP")
    assert any(isinstance(parameter, DTensor) for parameter in model.parameters()) == (case.strategy != "DDP")

    sums, whole = checksums(model)  # of all ranks together: every rank has to call it
    order, steps = [None] * case.ranks, [None] * case.ranks
    dist.all_gather_object(order, trainer.order)
    dist.all_gather_object(steps, recorder.steps)
    assert all(logged == steps[0] for logged in steps), "every rank logs the same"
    return {"model": case.model, "torch_dtype": case.torch_dtype, "autocast": case.autocast,
            "settings": settings, "config": case.config, "model_max_length": MAX_LENGTH, "adapter": case.adapter,
            "ranks": case.ranks, "nodes": case.nodes, "strategy": case.strategy,
            "reduce_dtype": case.reduce_dtype, "gradient_checkpointing": case.checkpointing,
            "steps": steps[0], "final": sums, "whole": whole,
            "made_with": {"transformers": transformers.__version__, "accelerate": accelerate.__version__,
                          "peft": peft.__version__, "torch": torch.__version__}}, order


def write(path, golden):
    """JSON, one line for each step and parameter."""
    lists = {key: golden[key] for key in ("steps", "final") if key in golden}
    golden = {key: f"@{key}@" if key in lists else value for key, value in golden.items()}
    text = "{\n" + ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in golden.items()) + "\n}\n"
    for key, value in lists.items():
        if isinstance(value, dict):
            lines = "{\n  " + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "}"
        else:
            lines = "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "]"
        text = text.replace(f'"@{key}@"', lines)
    path.write_text(text)


def rank_main(rank, ranks, names, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(TRAINING / "tokenizer")
    texts = [json.loads(line)["output"] for line in (TRAINING / "dataset.jsonl").read_text().splitlines()]
    entries = [{**encode(tokenizer, text), "entry": index} for index, text in enumerate(texts)]
    for name in names:
        golden, order = run(CASES[name], entries, tokenizer.pad_token_id)
        if rank == 0:
            steps, settings = golden["steps"], golden["settings"]
            assert len(steps) == STEPS
            norms = [step["grad_norm"] for step in steps if step["grad_norm"] is not None]  # of updates that were made
            assert CASES[name].adapter or all(norm > settings["max_grad_norm"] for norm in norms)
            write(FOLDER / f"{name}.json", golden)
            keep_order(ranks, order)
            print(name, [round(step["loss"], 5) for step in steps[:3]], round(steps[-1]["loss"], 5), flush=True)
    dist.destroy_process_group()


def keep_order(ranks, order):
    path = FOLDER / "order.json"
    orders = json.loads(path.read_text()) if path.exists() else {}
    assert orders.get(str(ranks), order) == order, "the order depends on the number of ranks alone"
    orders[str(ranks)] = order
    path.write_text("{\n" + ",\n".join(f' "{key}": {json.dumps(orders[key])}' for key in sorted(orders)) + "\n}\n")


def main():
    names = sys.argv[1:] or list(CASES)
    FOLDER.mkdir(exist_ok=True)
    for ranks in sorted({CASES[name].ranks for name in names}):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        mp.spawn(rank_main, (ranks, [name for name in names if CASES[name].ranks == ranks], port), nprocs=ranks)


if __name__ == "__main__":
    main()
