"""Reads all results of a folder. usage: settled.py RESULTS MEMORY [--cells N]

Every result must be whole JSON, and what an earlier call saw as valid or invalid must be the same file still, byte
for byte. With --cells: there are N results, all of them settled, and no other files than results and logs.
"""

import argparse
import hashlib
import json
import pathlib
import sys

arguments = argparse.ArgumentParser()
arguments.add_argument("results", type=pathlib.Path)
arguments.add_argument("memory", type=pathlib.Path)
arguments.add_argument("--cells", type=int)
arguments = arguments.parse_args()

known = json.loads(arguments.memory.read_text()) if arguments.memory.exists() else {}
problems = []
keys = set()
for path in sorted(arguments.results.glob("*/*.json")):
    content = path.read_bytes()
    try:
        result = json.loads(content)
    except ValueError as error:
        problems.append(f"{path.name} is torn: {error}")
        continue
    if result["status"] not in ("valid", "invalid"):
        if path.name in known:
            problems.append(f"{path.name} was settled and is {result['status']} now")
        continue
    digest = hashlib.sha256(content).hexdigest()
    if known.setdefault(path.name, digest) != digest:
        problems.append(f"{path.name} was settled and has been measured again")
    keys.add((result["entity_id"], result["experiment_id"]))
problems += [f"{name} is gone" for name in known if not list(arguments.results.glob(f"*/{name}"))]

if arguments.cells is not None:
    files = [path for path in arguments.results.glob("*/*")]
    litter = [p.name for p in files if p.suffix not in (".json", ".log") or ".growing." in p.name]
    results = [p for p in files if p.suffix == ".json"]
    if litter:
        problems.append(f"left lying about: {litter}")
    if not len(results) == len(keys) == arguments.cells:
        problems.append(f"{len(results)} results of {len(keys)} entities, not {arguments.cells}")

arguments.memory.write_text(json.dumps(known))
if problems:
    sys.exit("\n".join(problems))
