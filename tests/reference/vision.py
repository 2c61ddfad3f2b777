"""Golden file of the vision datasets, and a check of a generated one with the libraries that will read it.

    python tests/reference/vision.py             writes tests/reference/data/vision.json
    python tests/reference/vision.py FILE        reads a Parquet file of `sftbench dataset vision` with pandas and
                                                 Hugging Face datasets and compares it with what is made here

Pictures are Pillow's. Made with Pillow 13.0; the check was run with pandas 3.1, datasets 5.2 and 3.6.
"""

import io
import itertools
import json
import pathlib
import re
import sys
import tempfile

import xxhash
from PIL import Image, ImageDraw

HERE = pathlib.Path(__file__).resolve().parent
SEED_TEXT = HERE.parent.parent / "datasets" / "news_seed.txt"
SIZES = [(384, 384), (384, 768), (1, 1), (101, 57), (401, 400), (1000, 900)]


def digest(content):
    return xxhash.xxh3_128_hexdigest(content)


def picture(width, height):
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    for radius, color in ((200, "red"), (100, "blue")):
        draw.ellipse((width // 2 - radius, height // 2 - radius, width // 2 + radius, height // 2 + radius), fill=color)
    jpeg = io.BytesIO()
    image.save(jpeg, format="JPEG")
    return jpeg.getvalue()


def chats(seed, tokens_input=50, tokens_output=18200, words_per_token=0.75):
    words = itertools.cycle(seed.split())

    def cut(tokens):
        return " ".join(itertools.islice(words, int(tokens * words_per_token + 0.5)))

    for index in itertools.count():
        question, answer = cut(tokens_input), cut(tokens_output)
        yield [
            {"role": "user", "content": [{"type": "text", "text": question, "index": None},
                                         {"type": "image", "text": None, "index": index}]},
            {"role": "assistant", "content": [{"type": "text", "text": answer, "index": None}]},
        ]


def write_golden():
    small = dict(seed="one two\u00a0three f\u00fcnf\n\u516d \"seven\"", tokens_input=4, tokens_output=7, words_per_token=0.5)
    golden = {
        "pictures": [{"width": w, "height": h, "bytes": len(picture(w, h)), "digest": digest(picture(w, h))}
                     for w, h in SIZES],
        "small": {**small, "chats": list(itertools.islice(chats(**small), 5))},
        "named": [{"question": chat[0]["content"][0]["text"], "answer_digest": digest(chat[1]["content"][0]["text"].encode())}
                  for chat in itertools.islice(chats(SEED_TEXT.read_text()), 3)],
    }
    path = HERE / "data" / "vision.json"
    path.write_text(json.dumps(golden, indent=None, separators=(",", ":")) + "\n")
    print(f"{path}: {path.stat().st_size} bytes")


def require(what, found, expected):
    if found != expected:
        raise SystemExit(f"{what}: found {str(found)[:200]}, expected {str(expected)[:200]}")
    print(f"{what}: as expected")


def check(path):
    import datasets
    import pandas

    width, height = map(int, re.search(r"(\d+)x(\d+)", path).groups())
    frame = pandas.read_parquet(path)
    require("pandas: columns", list(frame.columns), ["images", "output"])
    require("pandas: every picture", {row["bytes"] for row in frame.images}, {picture(width, height)})

    with tempfile.TemporaryDirectory() as cache:
        rows = datasets.Dataset.from_parquet(path, cache_dir=cache)
        require("datasets: type of images", type(rows.features["images"]), datasets.Image)
        require("datasets: size of a picture", rows[0]["images"].size, (width, height))
        expected = chats(SEED_TEXT.read_text())
        require("datasets: chats", all(row == next(expected) for row in rows["output"]), True)
        require("datasets: rows", len(rows), len(frame))


if __name__ == "__main__":
    check(sys.argv[1]) if len(sys.argv) > 1 else write_golden()
