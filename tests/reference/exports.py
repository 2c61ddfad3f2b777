#!/usr/bin/env python3
"""Holds what `sftbench ... --export PROGRAM` writes to that program's own parser, and trains a tiny model by it.

usage: exports.py SFTBENCH PROGRAM [--train]

Run by a Python that has PROGRAM (tests/reference/exports/README.md says which versions). For each case it reads the
files with the program's parser, refuses keys that the parser does not know, compares what the parser understood with
what was asked for, and writes tests/reference/exports/PROGRAM-CASE.json: the case, the version, and the text of the
files, "@" for the folder. tests/cli/export_test.cpp holds the program to these texts. --train runs train.sh of a
two-step job on processors.
"""

import importlib.metadata
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).parent
GPUS = ["--set", "gpu_model=NVIDIA-H100-80GB-HBM3", "--set", "model_name=llama3.1-8b"]
TEXT = ["--data", "texts.jsonl", "--text-field", "text"]
CHAT = ["--data", "chats.jsonl", "--chat-template",
        "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"]
CASES = {
    "lora": ["--experiment", "lora", *GPUS, *TEXT, "--set", "number_gpus=4", "--set", "batch_size=16",
             "--set", "model_max_length=2048", "--set", "bf16=true"],
    "chats": ["--experiment", "lora", *GPUS, *CHAT, "--set", "number_gpus=1", "--set", "batch_size=2",
              "--set", "model_max_length=1024", "--set", "bf16=true", "--lora-targets", "all-linear",
              "--lora-r", "16", "--set", "gradient_checkpointing=false", "--warmup-steps", "5"],
    "full": ["--experiment", "full", *GPUS, *TEXT, "--set", "number_gpus=2", "--set", "batch_size=2",
             "--set", "model_max_length=512", "--set", "distributed_backend=DDP",
             "--set", 'fast_kernels=["True","True","True"]', "--learning-rate", "2e-5",
             "--set", "optim=adafactor", "--set", "max_steps=30"],
    "qlora": ["--method", "qlora", *GPUS, *TEXT, "--set", "number_gpus=1", "--set", "batch_size=4",
              "--set", "model_max_length=1024", "--lora-r", "16", "--set", "bf16=true",
              "--set", 'fast_kernels=["True","True","True"]'],
}
# Of a run on processors.
TRAINED = ["--model", "model", "--experiment", "full", "--set", "number_gpus=0", "--set", "torch_dtype=float32", "--set", "batch_size=2",
           "--set", "model_max_length=64", "--set", "max_steps=2", "--set", "gradient_accumulation_steps=1",
           "--set", "flash_attn=false", "--flops-per-s", "1e10", "--memory-gib", "8"]
PACKAGES = {"fms-hf-tuning": "fms-hf-tuning", "trl": "trl", "axolotl": "axolotl", "llamafactory": "llamafactory"}


def pretend_gpus():
    """Parsers ask the machine for a GPU with bfloat16, which it need not have."""
    import transformers.training_args
    import transformers.utils.import_utils

    for module in (transformers.utils.import_utils, transformers.training_args):
        for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available"):
            if hasattr(module, name):
                setattr(module, name, lambda: True)


def parse_fms(folder):
    from tuning.sft_trainer import get_parser as fresh_parser, parse_arguments

    def get_parser():
        parser = fresh_parser()
        for action in parser._actions:  # their casters count the words of a process
            if hasattr(action.type, "reset"):
                action.type.reset()
        return parser

    given = json.loads((folder / "arguments.json").read_text())
    known = set()
    for action in get_parser()._actions:
        known.add(action.dest)
    unknown = set(given) - known
    assert not unknown, unknown
    model, data, training, _, tuning, *_ = parse_arguments(get_parser(), given)
    # The command line says the same.
    words = (folder / "train.sh").read_text().splitlines()[-1].split("-m tuning.sft_trainer", 1)[1]
    sys.argv = ["sft_trainer"] + shlex.split(words)
    by_words = parse_arguments(get_parser())
    assert str(by_words[0]) == str(model) and str(by_words[1]) == str(data) and str(by_words[4]) == str(tuning)
    assert difference(by_words[2], training) == {}, difference(by_words[2], training)
    return training, {"dtype": str(model.torch_dtype).replace("torch.", ""), "rank": getattr(tuning, "r", None),
                      "length": training.max_seq_length}


def difference(one, other):
    one, other = json.loads(one.to_json_string()), json.loads(other.to_json_string())
    return {key: (one[key], other[key]) for key in one if one[key] != other[key] and key != "logging_dir"}


def parse_trl(folder):
    from trl.scripts.sft import make_parser

    _, training, model, _ = make_parser().parse_args_and_config(["--config", str(folder / "trl.yaml")],
                                                                fail_with_unknown_args=True)
    return training, {"dtype": model.dtype, "rank": model.lora_r if model.use_peft else None,
                      "length": training.max_length}


def parse_axolotl(folder):
    from axolotl.integrations.liger.args import LigerArgs
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.schemas.config import AxolotlInputConfig
    from axolotl.utils.schemas.fsdp import FSDPConfig

    given = yaml.safe_load((folder / "axolotl.yaml").read_text())
    names = set(AxolotlInputConfig.model_fields)
    names |= {field.alias for field in AxolotlInputConfig.model_fields.values() if field.alias}
    names |= set(LigerArgs.model_fields)
    unknown = set(given) - names - {"plugins"}
    unknown |= set(given.get("fsdp_config", {})) - set(FSDPConfig.model_fields)
    assert not unknown, unknown
    read = validate_config(DictDefault(given),
                           capabilities={"bf16": True, "fp8": True, "tf32": True, "n_gpu": 4,
                                         "compute_capability": "sm_90"},
                           env_capabilities={"torch_version": importlib.metadata.version("torch").split("+")[0]})
    read.per_device_train_batch_size = read.micro_batch_size
    read.lr_scheduler_type, read.optim = read.lr_scheduler, read.optimizer
    read.num_train_epochs = read.num_epochs
    return read, {"dtype": "bfloat16" if read.bf16 else "float16" if read.fp16 else "float32", "rank": read.lora_r,
                  "length": read.sequence_len}


def parse_llamafactory(folder):
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.hparams import get_train_args

    given = yaml.safe_load((folder / "llamafactory.yaml").read_text())
    import llamafactory.hparams.parser

    llamafactory.hparams.parser.is_torch_bf16_gpu_available = lambda: True
    model, data, training, tuning, _ = get_train_args(given)
    assert len(get_dataset_list(data.dataset, str(folder))) == 1
    return training, {"dtype": str(model.compute_dtype).replace("torch.", ""), "length": data.cutoff_len,
                      "rank": tuning.lora_rank if tuning.finetuning_type == "lora" else None}


PARSERS = {"fms-hf-tuning": parse_fms, "trl": parse_trl, "axolotl": parse_axolotl, "llamafactory": parse_llamafactory}


def asked(job):
    """What sftbench would train, from `run --dry-run`."""
    return {"per_device_train_batch_size": job["batches"]["per_device_batch_size"],
            "gradient_accumulation_steps": job["batches"]["gradient_accumulation_steps"],
            "learning_rate": job["optimizer"]["learning_rate"], "weight_decay": job["optimizer"]["weight_decay"],
            "max_grad_norm": job["optimizer"]["max_grad_norm"], "seed": job["seed"],
            "optim": job["optimizer"]["name"], "lr_scheduler_type": job["optimizer"]["schedule"],
            "num_train_epochs": job["batches"]["num_train_epochs"]}


def export(sftbench, program, arguments, folder):
    command = [sftbench, "predict", *arguments, "--weights", "random", "--export", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return folder / program


def check_launch(folder):
    from accelerate.commands.config.config_args import load_config_from_file

    load_config_from_file(str(folder / "accelerate.yaml"))  # unknown keys are errors


def main():
    sftbench, program = str(Path(sys.argv[1]).resolve()), sys.argv[2]
    train = "--train" in sys.argv
    pretend_gpus()
    version = importlib.metadata.version(PACKAGES[program])
    for case, arguments in CASES.items():
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            write_data(root)
            job = json.loads(subprocess.run([sftbench, "run", *arguments, "--weights", "random", "--dry-run"], cwd=root,
                                            capture_output=True, text=True, check=True).stdout)
            folder = export(sftbench, program, arguments, root)
            check_launch(folder)
            read, own = PARSERS[program](folder)
            for key, value in asked(job).items():
                found = getattr(read, key)
                found = getattr(found, "value", found)
                assert found == value, (program, case, key, found, value)
            assert own["length"] == job["data"]["model_max_length"], own
            assert own["dtype"] == job["precision"]["torch_dtype"], own
            assert own["rank"] == (job["lora"]["rank"] if job["tuning"] in ("lora", "qlora") else None), own
            golden = {"arguments": arguments, "read by": f"{program} {version}",
                      "files": {file.name: file.read_text().replace(name, "@")
                                for file in sorted(folder.iterdir()) if file.is_file()}}
            (HERE / "exports" / f"{program}-{case}.json").write_text(json.dumps(golden, indent=1) + "\n")
        print(program, version, case, "read")
    if train:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            write_data(root)
            for part in ("llama", "tokenizer"):
                shutil.copytree(HERE / "training" / part, root / "model", dirs_exist_ok=True)
            tokenizer = root / "model" / "tokenizer_config.json"  # of a class that transformers 4 has, too
            tokenizer.write_text(json.dumps({**json.loads(tokenizer.read_text()),
                                             "tokenizer_class": "PreTrainedTokenizerFast"}))
            folder = export(sftbench, program, [*TRAINED, *TEXT], root)
            done = subprocess.run(["sh", str(folder / "train.sh")], cwd=root, capture_output=True, text=True)
            print(done.stdout[-800:], done.stderr[-6000:] if done.returncode else "")
            assert done.returncode == 0
            print(program, version, "trained")


def write_data(folder):
    texts = [{"text": f"### Input: {'word ' * (3 + i)}\n### Response: {'answer ' * (2 + i % 5)}"} for i in range(16)]
    chats = [{"messages": [{"role": "user", "content": f"question {i}"},
                           {"role": "assistant", "content": f"answer {i}"}]} for i in range(16)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in texts))
    (folder / "chats.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in chats))


if __name__ == "__main__":
    main()
