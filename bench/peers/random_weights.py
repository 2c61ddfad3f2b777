#!/usr/bin/env python3
"""A model with random weights as a folder of Hugging Face's, which the engine and a peer both begin from.

  bench/peers/random_weights.py MODEL FOLDER

MODEL is smollm2-135m or a config.json. The folder also gets a small tokenizer, which data of token ids does not need.
"""
import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from hf_trainer import SMOLLM2_135M

TOKENIZER = Path(__file__).resolve().parents[2] / "tests/reference/training/tokenizer"


def main():
    model, folder = sys.argv[1:]
    settings = dict(SMOLLM2_135M if model == "smollm2-135m" else json.loads(Path(model).read_text()))
    settings.pop("torch_dtype", None)
    torch.manual_seed(42)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    shutil.copytree(TOKENIZER, folder, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
