#!/usr/bin/env python3
"""Runs every command of docs/guide/own-model-and-data.md, docs/reference/arguments.md and tests/documented_commands.md, with a
tiny model in place of the reader's, and looks at what is left.
usage: own_page.py SFTBENCH SOURCE_DIR"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema


def prepare(folder, reference):
    model = folder / "my-llama"
    shutil.copytree(reference / "training" / "llama", model)
    for file in (reference / "training" / "tokenizer").iterdir():
        shutil.copy(file, model)
    for name in ("pairs.json", "tokens.jsonl"):
        shutil.copy(reference / "own_data" / name, folder)


def run_page(program, source, page, expected_results, adapters):
    text = (source / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.M | re.S)
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
                sys.exit(f"{page}: {block}\nended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        results = [json.loads(file.read_text()) for file in folder.glob("results/*/*.json")]
        wrong = [result["inputs"] for result in results
                 if result["status"] != "valid" or result["inputs"]["model_name"] != "my-llama"
                 or not {"training_data", "data_mixture"} & set(result["inputs"])]
        if wrong or len(results) != expected_results:
            sys.exit(f"{page}: {len(results)} results; not valid, or not named after the reader's own: {wrong}")
        schema = json.loads((source / "config" / "measurement.schema.json").read_text())
        for result in results:
            jsonschema.validate(result, schema)
        for adapter in adapters:
            if not list(folder.glob(f"{adapter}/**/adapter_config.json")):
                sys.exit(f"{page}: {adapter} has no adapter_config.json")
    print(f"{page}: {len(blocks)} blocks ran")


def main(program, source):
    run_page(program, source, "docs/guide/own-model-and-data.md", 12, ("adapter", "activated", "mine", "mine-longer"))
    run_page(program, source, "docs/reference/arguments.md", 3, ("tuned",))
    run_page(program, source, "tests/documented_commands.md", 9, ("reasoner", "activated-adapter"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
