#!/usr/bin/env python3
"""Runs every command of docs/own-model-and-data.md, with a tiny model in place of the reader's, and looks at what is left.
usage: own_page.py SFTBENCH SOURCE_DIR"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def prepare(folder, reference):
    model = folder / "my-llama"
    shutil.copytree(reference / "training" / "llama", model)
    for file in (reference / "training" / "tokenizer").iterdir():
        shutil.copy(file, model)
    for name in ("pairs.json", "tokens.jsonl"):
        shutil.copy(reference / "own_data" / name, folder)


def main(program, source):
    page = (source / "docs" / "own-model-and-data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.M | re.S)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, source / "tests" / "reference")
        (folder / "bin").mkdir()
        (folder / "bin" / "sftbench").symlink_to(program)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "XDG_DATA_HOME": name,
                       "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""}
        for block in blocks:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if done.returncode:
                sys.exit(f"{block}\nended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        results = [json.loads(file.read_text()) for file in folder.glob("results/*/*.json")]
        wrong = [result["inputs"] for result in results
                 if result["status"] != "valid" or result["inputs"]["model_name"] != "my-llama"
                 or "training_data" not in result["inputs"]]
        if wrong or len(results) != 11:
            sys.exit(f"{len(results)} results; not valid, or not named after the reader's own: {wrong}")
        for adapter in ("adapter", "tuned"):
            if not (folder / adapter / "adapter_config.json").exists():
                sys.exit(f"{adapter} has no adapter_config.json")
    print(f"{len(blocks)} blocks ran")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
