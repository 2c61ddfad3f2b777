#!/usr/bin/env python3
"""Writes the keys of other programs' argument files at the libraries' own defaults, as the golden
tests/reference/argument_files/defaults.json that tests/cli/argument_defaults_test.cpp reads: each key at its
default has to be taken by --arguments or --deepspeed.

usage: argument_files.py DEEPSPEED OUT

DEEPSPEED is a checkout of https://github.com/deepspeedai/DeepSpeed, whose configuration classes are read as text
(its package builds kernels when it is installed). The other libraries are imported, and their fields asked:
transformers 5.24.0, trl 1.16.0, accelerate 1.15.0. Files of `accelerate config` are made by its own questions, each
answered with its default but for those that choose a kind of training.
"""

import ast
import dataclasses
import enum
import json
import sys
import tempfile
from pathlib import Path

import accelerate
import transformers
import trl
import yaml
from accelerate.commands.config import cluster


def plain(value):
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def defaults(kind):
    """Fields of a dataclass that have a default."""
    found = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = plain(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = plain(field.default_factory())
    return found


def configured(answers):
    """What `accelerate config` writes. `answers`: part of a question -> the answer; others: the default."""

    def answer(text, default):
        for part, given in answers.items():
            if part in text:
                return given
        return default

    def ask_field(text, convert=None, default=None, error_message=None):
        given = answer(text, default)
        return convert(str(given)) if convert is not None and given is not default else given

    def ask_options(text, options=(), convert=None, default=0):
        given = answer(text, default)
        index = options.index(given) if isinstance(given, str) else given
        return convert(index) if convert is not None else index

    cluster._ask_field, cluster._ask_options = ask_field, ask_options
    cluster.is_deepspeed_available = lambda: True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        cluster.get_cluster_input().to_yaml_file(path)
        return yaml.safe_load(path.read_text())


MACHINE = "Which type of machine"
KINDS = {
    "one process": {MACHINE: "No distributed training"},
    "CPUs": {MACHINE: "multi-CPU", "How many processes should": 2},
    "GPUs": {MACHINE: "multi-GPU", "How many GPU": 2, "How many different machines": 1},
    "FSDP 1": {MACHINE: "multi-GPU", "FullyShardedDataParallel": "yes", "FSDP version": 0,
               "How many GPU": 2},
    "FSDP 2": {MACHINE: "multi-GPU", "FullyShardedDataParallel": "yes", "FSDP version": 1,
               "How many GPU": 2},
    "DeepSpeed, stage 2": {MACHINE: "multi-GPU", "use DeepSpeed": "yes", "optimization stage": 2,
                           "How many GPU": 2},
    "DeepSpeed, stage 3": {MACHINE: "multi-GPU", "use DeepSpeed": "yes", "optimization stage": 3,
                           "How many GPU": 2, "zero.Init": "yes"},
}


# --- DeepSpeed --------------------------------------------------------------------------------------------------------


def number(node):
    """pp_int(5e8) is 5e8, Field(x, ...) is x."""
    if isinstance(node, ast.Call):
        if node.args:
            return number(node.args[0])
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        return number(named["default"]) if "default" in named else None
    if isinstance(node, ast.Attribute):
        return 2**63 - 1  # sys.maxsize
    return ast.literal_eval(node)


def spellings(name, node):
    """A field goes by its own name and by its alias."""
    names = [name]
    if isinstance(node, ast.Call):
        names += [ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg == "alias"]
    return names


def fields(path, kind):
    tree = ast.parse(path.read_text())
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
    found = {}
    for field in body:
        if isinstance(field, ast.AnnAssign) and field.value is not None:
            for name in spellings(field.target.id, field.value):
                found[name] = number(field.value)
    return found


def constants(path):
    """{"PRESCALE_GRADIENTS": ("prescale_gradients", False)} of NAME = ... and NAME_DEFAULT = ..."""
    values = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, AttributeError):
                pass
    return {name: (values[name], values[name + "_DEFAULT"]) for name in values if name + "_DEFAULT" in values}


def deepspeed(source):
    runtime = Path(source) / "deepspeed" / "runtime"
    zero = fields(runtime / "zero" / "config.py", "DeepSpeedZeroConfig")
    offload = runtime / "zero" / "offload_config.py"
    top = constants(runtime / "constants.py")
    names = ["STEPS_PER_PRINT", "ZERO_ALLOW_UNTESTED_OPTIMIZER", "ZERO_FORCE_DS_CPU_OPTIMIZER", "SPARSE_GRADIENTS",
             "GRADIENT_CLIPPING", "COMMUNICATION_DATA_TYPE", "PRESCALE_GRADIENTS", "GRADIENT_PREDIVIDE_FACTOR",
             "DISABLE_ALLGATHER", "DUMP_STATE", "WALL_CLOCK_BREAKDOWN", "MEMORY_BREAKDOWN", "DATALOADER_DROP_LAST",
             "VOCABULARY_SIZE", "GRAPH_HARVESTING", "TRAIN_BATCH_SIZE", "TRAIN_MICRO_BATCH_SIZE_PER_GPU",
             "GRADIENT_ACCUMULATION_STEPS"]
    files = {"nothing said": dict(top[name] for name in names if name in top)}
    for stage in range(4):
        files[f"stage {stage}"] = {"zero_optimization": {**zero, "stage": stage}}
    files["offload"] = {"zero_optimization": {
        "stage": 3,
        "offload_param": fields(offload, "DeepSpeedZeroOffloadParamConfig"),
        "offload_optimizer": fields(offload, "DeepSpeedZeroOffloadOptimizerConfig")}}
    precision = runtime / "precision_config.py"
    for enabled in (False, True):
        said = "" if enabled else "not "
        files[f"fp16 {said}enabled"] = {"fp16": {**fields(precision, "DeepSpeedFP16Config"), "enabled": enabled}}
        files[f"bf16 {said}enabled"] = {"bf16": {**fields(precision, "DeepSpeedBF16Config"), "enabled": enabled}}
    checkpointing = constants(runtime / "activation_checkpointing" / "config.py")
    files["activation_checkpointing"] = {"activation_checkpointing": dict(checkpointing.values())}
    return files


def main():
    source, out = sys.argv[1:]
    golden = {
        "versions": {module.__name__: module.__version__ for module in (transformers, trl, accelerate)},
        "arguments": {
            "TrainingArguments": defaults(transformers.TrainingArguments),
            "SFTConfig": defaults(trl.SFTConfig),
            "ModelConfig": defaults(trl.ModelConfig),
            "ScriptArguments": defaults(trl.ScriptArguments),
        },
        "accelerate config": {name: configured(answers) for name, answers in KINDS.items()},
        "deepspeed": deepspeed(source),
    }
    Path(out).write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
