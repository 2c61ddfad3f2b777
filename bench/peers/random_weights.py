#!/usr/bin/env python3
"""A model with random weights as a folder of Hugging Face's, which the engine and a peer both begin from.

  bench/peers/random_weights.py MODEL FOLDER

MODEL is smollm2-135m or a config.json. The folder also gets a small tokenizer, which data of token ids does not need,
and of a model that reads images a processor, which cuts a picture of 4:3 into four tiles and adds the whole of it.
"""
import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoTokenizer

from hf_trainer import SMOLLM2_135M, model_class

TRAINING = Path(__file__).resolve().parents[2] / "tests/reference/training"


def save_processor(config, folder):
    from transformers import Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
    side = config.vision_config.image_size
    images = Idefics3ImageProcessorPil(size={"longest_edge": 2 * side}, max_image_size={"longest_edge": side})
    features = (side // config.vision_config.patch_size // config.scale_factor) ** 2
    Idefics3Processor(images, AutoTokenizer.from_pretrained(TRAINING / "smolvlm"), features).save_pretrained(folder)


def main():
    model, folder = sys.argv[1:]
    settings = dict(SMOLLM2_135M if model == "smollm2-135m" else json.loads(Path(model).read_text()))
    settings.pop("torch_dtype", None)
    torch.manual_seed(42)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    model_class(config).from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    if hasattr(config, "vision_config"):
        save_processor(config, folder)
    else:
        shutil.copytree(TRAINING / "tokenizer", folder, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
