#!/usr/bin/env python3
"""Packed data and CSV: what Python's gzip, csv and pyarrow 26.0 write, and the rows that went into it.

Writes own_data/packed.{jsonl.gz,csv.gz,jsonl.zst}, own_data/quoted.csv and own_data/packed.json:
    PYTHONPATH=../../build/pyarrow python packed.py
"""
import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow

FOLDER = Path(__file__).parent / "own_data"
ROWS = [{"text": "plain", "other": "1"}, {"text": "comma, and \"quotes\"", "other": ""},
        {"text": "two\nlines\r\nand a tab\t", "other": " blanks "}, {"text": "東京", "other": "\\n"}]


def packed(name, text):
    with open(FOLDER / name, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as member:
        member.write(text.encode())


def main():
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, ["text", "other"])
    writer.writeheader()
    writer.writerows(ROWS)
    packed("packed.jsonl.gz", lines)
    packed("packed.csv.gz", table.getvalue())
    (FOLDER / "packed.jsonl.zst").write_bytes(pyarrow.compress(lines.encode(), codec="zstd", asbytes=True))
    (FOLDER / "quoted.csv").write_bytes(b"\xef\xbb\xbf" + table.getvalue().encode())
    (FOLDER / "packed.json").write_text(json.dumps(ROWS) + "\n")


if __name__ == "__main__":
    main()
