#!/usr/bin/env python3
"""Golden file of tests/families/vision_config_test.cpp: how LlavaNext cuts images of many sizes.

Writes tests/reference/data/anyres.json: for the pinpoints of both documented models, and per size (height, width) the pinpoint, the
size within it, and the number of features that the processor counts. Made with transformers 5.23.0.
"""
import json
import random
from pathlib import Path

import numpy as np
from transformers import LlavaNextProcessor
from transformers.image_processing_utils import get_patch_output_size, select_best_resolution
from transformers.image_utils import ChannelDimension

OUTPUT = Path(__file__).resolve().parent / "data" / "anyres.json"
MODELS = {
    "clip": (336, 14, [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]),
    "siglip": (384, 14, [[384 * h, 384 * w] for h, ws in ((1, 10), (2, 5), (3, 3), (4, 2), (5, 2)) for w in range(1, ws + 1)]
               + [[384 * h, 384] for h in range(6, 11)]),
}


def main():
    rng = random.Random(3)
    sizes = [(384, 384), (768, 384), (384, 768), (1, 1), (1, 3000), (3000, 1), (333, 500), (500, 333), (1080, 1920)]
    sizes += [(rng.randint(1, 2500), rng.randint(1, 2500)) for _ in range(60)]
    golden = {}
    for name, (side, patch, pinpoints) in MODELS.items():
        processor = LlavaNextProcessor.__new__(LlavaNextProcessor)
        processor.patch_size, processor.num_additional_image_tokens = patch, 0
        processor.image_processor = type("P", (), {"image_grid_pinpoints": pinpoints})
        rows = []
        for size in sizes:
            best = select_best_resolution(size, pinpoints)
            scaled = get_patch_output_size(np.zeros((3, *size), np.uint8), best, ChannelDimension.FIRST)
            rows.append([*size, *best, *scaled, processor._get_number_of_features(*size, side, side)])
        golden[name] = {"image_size": side, "patch_size": patch, "image_grid_pinpoints": pinpoints, "rows": rows}
    OUTPUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
