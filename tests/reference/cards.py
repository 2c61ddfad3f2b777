#!/usr/bin/env python3
"""Golden metadata of model cards: what peft writes in front of README.md of an adapter.

Writes cards/peft.json: the metadata of a LoRA adapter and of prompt tuning, of a base model named org/base.

Made with peft 0.21, transformers 5.24, torch 2.15:  python cards.py
Cards of this program, read by huggingface_hub:      python cards.py --check FOLDER
where FOLDER holds N.md and N.json, the base model's name, as tests/checkpoint/model_card_test.cpp leaves them with
SFTBENCH_KEEP_CARDS=FOLDER. A FOLDER with README.md and an adapter is loaded by peft's and the hub's own reader.
"""
import argparse
import json
import tempfile
from pathlib import Path

import peft
from huggingface_hub import ModelCard
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM

from training import FOLDER as TRAINING

FOLDER = Path(__file__).parent / "cards"
CONFIGS = {"lora": LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=["q_proj", "v_proj"]),
           "prompt": PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=5)}


def metadata(config):
    base = AutoModelForCausalLM.from_pretrained(TRAINING / "llama")
    base.name_or_path = base.config._name_or_path = "org/base"
    with tempfile.TemporaryDirectory() as folder:
        get_peft_model(base, config).save_pretrained(folder)
        return ModelCard.load(Path(folder) / "README.md").data.to_dict()


def check(folder):
    """Every name comes back as it was given, and no name adds a key."""
    cards = sorted(folder.glob("*.md"))
    assert cards, f"{folder} holds no card"
    for path in cards:
        data = ModelCard.load(path, ignore_metadata_errors=False).data.to_dict()
        named = path.with_suffix(".json")
        if named.exists():
            name = json.loads(named.read_text())
            assert data.get("base_model", "") == name, (path, data)
            tags = ["lora", "transformers", *([f"base_model:adapter:{name}"] if name else [])]
            assert sorted(data["tags"]) == sorted(tags), (path, data)
        known = {"base_model", "library_name", "pipeline_tag", "tags"}
        assert set(data) <= known, (path, set(data) - known)
        print(f"{path}: {data['library_name']}, base model {data.get('base_model')!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.check:
        return check(options.check)
    FOLDER.mkdir(exist_ok=True)
    golden = {name: metadata(config) for name, config in CONFIGS.items()}
    golden["made_with"] = {"peft": peft.__version__}
    (FOLDER / "peft.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
