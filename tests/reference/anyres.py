#!/usr/bin/env python3
"""Golden files of tests/families/vision_config_test.cpp and tests/engine/vision_training_test.cpp: how LlavaNext and Idefics3 cut
images of many sizes, and what tiles they make.

Writes tests/reference/data/anyres.json: for the pinpoints of both documented models, and per size (height, width) the pinpoint, the
size within it, and the number of features that the processor counts. Made with transformers 5.23.0.

Writes tests/reference/data/squares.json: for settings of Idefics3's processor, per size (height, width) rows and columns of tiles;
and of `pictures`, drawn by drawn.py's rule from "picture", the SHA-256 of the tiles [tiles, 3, side, side] before they are scaled.
Made with transformers 5.24.0 and Pillow 13.0.
"""
import hashlib
import json
import random
from pathlib import Path

import numpy as np
from transformers import LlavaNextProcessor
from transformers.image_processing_backends import PilBackend
from transformers.image_processing_utils import get_patch_output_size, select_best_resolution
from transformers.image_utils import ChannelDimension
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from drawn import drawn_bits

OUTPUT = Path(__file__).resolve().parent / "data" / "anyres.json"
MODELS = {
    "clip": (336, 14, [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]),
    "siglip": (384, 14, [[384 * h, 384 * w] for h, ws in ((1, 10), (2, 5), (3, 3), (4, 2), (5, 2)) for w in range(1, ws + 1)]
               + [[384 * h, 384] for h in range(6, 11)]),
}

# Idefics3-8B, SmolVLM-256M and SmolVLM2-2.2B, whose tiles no image of theirs would fill here, and images as one tile.
SQUARES = [(364, 1456, True), (512, 2048, True), (384, 1536, True), (20, 70, True), (12, 30, True), (16, 16, True), (14, 60, False)]


def squares(sizes, pictures):
    """Rows and columns of all sizes are those of a processor that resizes nothing but numbers."""
    golden = []
    for tile, longest, cuts in SQUARES:
        options = dict(size={"longest_edge": longest}, max_image_size={"longest_edge": tile}, do_image_splitting=cuts,
                       image_mean=[0.5] * 3, image_std=[0.5] * 3, return_row_col_info=True)
        processor, other = Idefics3ImageProcessorPil(**options), SmolVLMImageProcessorPil(**options)
        rows = []
        for size in sizes if tile > 100 else []:
            image = np.broadcast_to(np.zeros((3, 1, 1), np.uint8), (3, *size))
            with Shapes():
                image = processor.resize_for_vision_encoder(processor.resize(image, processor.size), tile)
            rows.append([*size, *(side // tile if max(image.shape) > tile else 0 for side in image.shape[1:])])
        digests = []
        for height, width in pictures if tile < 100 else []:
            picture = ((drawn_bits("picture", height * width * 3).numpy() + 0.5) * 256).astype(np.uint8).reshape(height, width, 3)
            made, same = (one(images=[picture], return_tensors="np", input_data_format="channels_last") for one in (processor, other))
            assert (made["pixel_values"] == same["pixel_values"]).all()
            levels = (made["pixel_values"][0] + 1) * 127.5
            tiles = np.rint(levels).astype(np.uint8)
            assert abs(levels - tiles).max() < 1e-3 and made["pixel_attention_mask"].all()
            digests.append([height, width, made["rows"][0][0], made["cols"][0][0], hashlib.sha256(tiles.tobytes()).hexdigest()])
        golden.append({"max_image_size": tile, "size": longest, "cuts": cuts, "rows": rows, "pictures": digests})
    return golden


class Shapes:
    """Within, PilBackend.resize() makes no picture, but has its size."""

    def __enter__(self):
        self.resize = PilBackend.resize
        PilBackend.resize = lambda self, image, size, **_: np.broadcast_to(image[:, :1, :1], (3, size.height, size.width))

    def __exit__(self, *_):
        PilBackend.resize = self.resize


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
    pictures = [(12, 12), (20, 31), (11, 7), (9, 64), (64, 9), (33, 32), (1, 40), (57, 101)]
    text = json.dumps(squares(sizes, pictures))
    OUTPUT.with_name("squares.json").write_text(text.replace('{"max', '\n{"max') + "\n")


if __name__ == "__main__":
    main()
