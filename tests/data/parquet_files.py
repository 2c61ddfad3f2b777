"""What the tests of Parquet need from a reader and writer that is not ours.

    parquet_files.py read FILE            prints schema metadata and all rows as JSON (bytes as hexadecimal)
    parquet_files.py write FOLDER         writes the files that vision_parquet_test reads

Exit status 3: there is no pyarrow here.
"""

import json
import pathlib
import sys

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    sys.exit(3)


def read(path):
    table = pyarrow.parquet.read_table(path)
    metadata = {key.decode(): json.loads(value) for key, value in (table.schema.metadata or {}).items()}
    file = pyarrow.parquet.ParquetFile(path)
    print(json.dumps({
        "metadata": metadata,
        "types": {name: str(table.schema.field(name).type) for name in table.schema.names},
        "compression": file.metadata.row_group(0).column(0).compression,
        "row_groups": file.num_row_groups,
        "rows": table.to_pylist(),
    }, default=bytes.hex))


def write(folder):
    folder = pathlib.Path(folder)
    chat = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image", "text": None}]},
            {"role": "assistant", "content": [{"type": "text", "text": "two"}]}]
    plain = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    tables = {
        "text": {"output": [f"text {i}" for i in range(1000)]},
        "large": {"output": pyarrow.array(["one\ntwo"], pyarrow.large_string())},
        "chat": {"output": [chat, []]},
        "plain_chat": {"output": [plain]},
        "nulls": {"output": ["one", None, "three"]},
        "numbers": {"output": [1], "outputs": ["text"]},
        "structs": {"output": [{"name": "x"}]},
        "bytes": {"output": pyarrow.array(["one".encode(), None, "zwei \u00e4".encode()], pyarrow.binary()),
                  "picture": pyarrow.array([b"\x89PNG", None, b"\xff\xd8"], pyarrow.binary()),
                  "messages": pyarrow.array([[{"role": b"user", "content": b"a"}], [], []], pyarrow.list_(pyarrow.struct(
                      {"role": pyarrow.large_binary(), "content": pyarrow.binary()})))},
        "late_bytes": {"output": pyarrow.array([b"a"] * 400 + [b"\xe9"], pyarrow.binary())},
        "empty": {"output": pyarrow.array([], pyarrow.string())},
    }
    for name, columns in tables.items():
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{name}.parquet", row_group_size=300)


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](*sys.argv[2:])
