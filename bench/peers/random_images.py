#!/usr/bin/env python3
"""Pictures with texts that the engine and a peer both train on: a Parquet file with the columns text and images.

  bench/peers/random_images.py FILE [--entries 4] [--height 384] [--width 512]

Each entry has one picture, a PNG of noise over waves, and a text with its placeholder.
"""
import argparse
import io
import random

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

WORDS = "river stone bridge early market copper signal harvest window paper train garden".split()


def picture(height, width, draw):
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 90 * np.sin(x / (40 + c) + y / (90 - c)) for c in range(3)], -1)
    pixels = waves + draw.integers(-15, 16, waves.shape)
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, format="PNG")
    return {"bytes": stream.getvalue(), "path": None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--entries", type=int, default=4)
    parser.add_argument("--height", type=int, default=384)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    draw, words = np.random.default_rng(42), random.Random(42)
    rows = [{"text": "<image>" + " ".join(words.choices(WORDS, k=32)),
             "images": [picture(options.height, options.width, draw)]} for _ in range(options.entries)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), options.file)


if __name__ == "__main__":
    main()
