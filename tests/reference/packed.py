#!/usr/bin/env python3
"""Packed data, CSV and nested Parquet: what Python's gzip, csv and pyarrow 26.0 write, and the rows that went into it.

Writes own_data/packed.{jsonl.gz,csv.gz,jsonl.zst}, own_data/quoted.csv and own_data/packed.json, and own_data/nulls.parquet
with the rows of own_data/nulls.json, where each message has the keys of all others in Parquet, and texts are string views:
    PYTHONPATH=../../build/pyarrow python packed.py
"""
import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet

FOLDER = Path(__file__).parent / "own_data"
ROWS = [{"text": "plain", "other": "1"}, {"text": "comma, and \"quotes\"", "other": ""},
        {"text": "two\nlines\r\nand a tab\t", "other": " blanks "}, {"text": "東京", "other": "\\n"}]
CALL = {"type": "function", "function": {"name": "f", "arguments": {"town": "Rome"}}}
OTHER = {"type": "function", "function": {"name": "g", "arguments": {"number": 2}}}
CHATS = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "source": "web"},
         {"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "tool_calls": [CALL, OTHER]},
                       {"role": "tool", "content": "d", "name": "f"}], "source": "book"}]


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
    chats = pyarrow.Table.from_pylist(CHATS)
    views = chats.set_column(1, "source", chats["source"].cast(pyarrow.string_view()))
    pyarrow.parquet.write_table(views, FOLDER / "nulls.parquet")
    (FOLDER / "nulls.json").write_text(json.dumps(CHATS) + "\n")


if __name__ == "__main__":
    main()
