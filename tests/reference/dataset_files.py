#!/usr/bin/env python3
"""Which files of a repository the package datasets takes for a split, for tests/base/train_files_test.cpp, and which
entries for a slice, for tests/base/dataset_part_test.cpp.

  dataset_files.py        writes tests/reference/data/dataset_files.json

pip install datasets. Layouts are our own. A layout is a folder here, where the same code finds files as on the hub.
What datasets refuses has `files` null.
"""
import json
import tempfile
from pathlib import Path

import datasets

HERE = Path(__file__).parent

SPLITS_OF_CARD = """---
license: mit
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: data/test-*
---
# A dataset
"""
TWO_CONFIGS = """---
configs:
- config_name: en
  data_files:
  - split: train
    path: [en/one.jsonl, "en/more/*.jsonl"]
  - split: train_sft
    path: en/sft.jsonl
- config_name: de
  data_files: de/*.jsonl
---
"""
DEFAULT_OF_TWO = TWO_CONFIGS.replace("- config_name: de", "- config_name: de\n  default: true")
FOLDERS = """---
configs:
- config_name: small
  data_dir: small
- config_name: large
  data_dir: ./large/
---
"""
EN_DE = ["en/one.jsonl", "en/two.jsonl", "en/more/b.jsonl", "en/more/a.jsonl", "en/sft.jsonl", "de/x.jsonl"]

# name, files, card, [(config, split)]
LAYOUTS = [
    ("one file", ["pairs.jsonl"], "", [("", "train"), ("", "test")]),
    ("files beside it", ["pairs.jsonl", "LICENSE", "config.json", "dataset_infos.json", "notes.md"], "", [("", "train")]),
    ("shards", ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet",
                "data/test-00000-of-00001.parquet", "extra.parquet"], "", [("", "train"), ("", "test"), ("", "dev")]),
    ("shards with a hash", ["data/train-00000-of-00001-8f1d.parquet", "data/train_sft-00000-of-00001.parquet"], "",
     [("", "train"), ("", "train_sft")]),
    ("names", ["train.jsonl", "test.jsonl", "dev.jsonl"], "", [("", "train"), ("", "validation"), ("", "test")]),
    ("names with more", ["my-train_2.jsonl", "my train 1.jsonl", "constrain.jsonl", "training.jsonl", "trains.jsonl",
                         "my_eval.jsonl"], "", [("", "train"), ("", "test")]),
    ("names below", ["a/b/train-1.json", "a/train.json", "c/test.json", "d/other.json"], "", [("", "train")]),
    ("folders", ["train/b.jsonl", "train/deep/a.jsonl", "test/c.jsonl", "d.jsonl"], "", [("", "train"), ("", "test")]),
    ("folders with more", ["x/my-train/a.jsonl", "x/train 1/a.jsonl", "x/strain/a.jsonl"], "", [("", "train")]),
    ("only a test", ["test.jsonl", "other.jsonl"], "", [("", "train"), ("", "test")]),
    ("hidden", [".hidden/a.jsonl", ".b.jsonl", "__cache__/c.jsonl", "d.jsonl"], "", [("", "train")]),
    ("mostly json lines", ["a.jsonl", "b.jsonl", "c.parquet", "d.json"], "", [("", "train")]),
    ("as many of each", ["a.jsonl", "b.parquet"], "", [("", "train")]),
    ("as many json", ["a.json", "b.jsonl"], "", [("", "train")]),
    ("upper case", ["A.JSONL", "b.jsonl"], "", [("", "train")]),
    ("a card with splits", ["data/train-1.jsonl", "data/train-0.jsonl", "data/test-0.jsonl", "data/other.jsonl"],
     SPLITS_OF_CARD, [("", "train"), ("default", "train"), ("", "test"), ("", "dev"), ("other", "train")]),
    ("two configs", EN_DE, TWO_CONFIGS,
     [("", "train"), ("en", "train"), ("de", "train"), ("en", "train_sft"), ("de", "train_sft")]),
    ("a default of two configs", EN_DE, DEFAULT_OF_TWO, [("", "train"), ("en", "train")]),
    ("configs that are folders", ["small/train.jsonl", "small/test.jsonl", "large/data/train-00000-of-00001.jsonl",
                                  "train.jsonl"], FOLDERS, [("small", "train"), ("large", "train"), ("small", "test")]),
    ("a file that is not there", ["a.jsonl"],
     "---\nconfigs:\n- config_name: x\n  data_files: b.jsonl\n---\n", [("", "train")]),
    ("a pattern without files", ["a.jsonl"],
     "---\nconfigs:\n- config_name: x\n  data_files: ['b*.jsonl']\n---\n", [("", "train")]),
    ("patterns", ["a/1.jsonl", "a/b/2.jsonl", "a/b/c/3.jsonl", "x-1.jsonl", "y-2.jsonl", "z-3.jsonl", "z-10.jsonl"],
     "---\nconfigs:\n- config_name: all\n  data_files: 'a/**'\n- config_name: deep\n  data_files: '**/[0-9].jsonl'\n"
     "- config_name: set\n  data_files: '[x-y]-*.jsonl'\n- config_name: not\n  data_files: '[!x]-?.jsonl'\n"
     "- config_name: dot\n  data_files: './a/*.jsonl'\n---\n",
     [("all", "train"), ("deep", "train"), ("set", "train"), ("not", "train"), ("dot", "train")]),
    ("a card without configs", ["train.jsonl", "x.jsonl"], "---\nlicense: mit\n---\ntext\n", [("", "train")]),
    ("a card without a front matter", ["train.jsonl", "x.jsonl"], "# configs:\n---\nconfigs: 1\n---\n", [("", "train")]),
]


SLICES = ["[:1%]", "[:10%]", "[10%:]", "[:-1%]", "[-5%:]", "[25%:75%]", "[:5]", "[5:]", "[2:7]", "[-3:]", "[:-3]", "[-5:-2]",
          "[7:2]", "[:1_000]", "[:]", "[:0]", "[:0%]", "[1000:]", "[:50%]", "[:2%]", "[10:50%]", "[-200:]", "[:100%]"]
ENTRIES = [1, 3, 10, 25, 50, 99, 101, 51760]


def entries_of(slice_, entries):
    (found,) = datasets.ReadInstruction.from_spec("train" + slice_).to_absolute({"train": entries})
    taken = range(entries)[found.from_:found.to]
    return f"{taken[0]}-{taken[-1]}" if taken else "none"


def files_of(folder, config, split):
    try:
        builder = datasets.load_dataset_builder(str(folder), config or None)
        files = builder.config.data_files[split]
    except Exception as error:
        print(f"  {type(error).__name__}: {str(error).splitlines()[0][:120]}")
        return None
    return [Path(file).resolve().relative_to(folder).as_posix() for file in files]


def main():
    cases = []
    for name, files, card, asked in LAYOUTS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary).resolve() / "layout"
            for file in files:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text("{}" if file == "dataset_infos.json" else '{"a": 1}\n')
            if card:
                (folder / "README.md").write_text(card)
            for config, split in asked:
                print(name, config, split)
                cases.append({"layout": name, "paths": files + (["README.md"] if card else []), "card": card,
                              "config": config, "split": split, "files": files_of(folder, config, split)})
    slices = {slice_: " ".join(entries_of(slice_, entries) for entries in ENTRIES) for slice_ in SLICES}
    result = {"datasets": datasets.__version__, "cases": cases, "entries": ENTRIES, "slices": slices}
    (HERE / "data" / "dataset_files.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
