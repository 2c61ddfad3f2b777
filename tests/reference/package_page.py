"""Golden file space/package_page.json: the experiments of the page of ado's package ado-sfttrainer, with the models and the
optional properties that it lists for each.

usage: tests/reference/package_page.py PAGE.txt     the page as text, from PyPI"""
import json
import re
import sys
from pathlib import Path

experiments = []
optional = False
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    if line.startswith("finetune_"):
        experiments.append({"identifier": line, "models": [], "optional": []})
    if not experiments:
        continue
    if "Supported models: [" in line:
        experiments[-1]["models"] += re.findall(r'"([^"]*)"', line.split("Supported models: [")[1])
    if line == "Optional:":
        optional = True
    if line == "Hardcoded:" or line.startswith("NOTE:"):
        optional = False
    if optional and line.startswith("  • "):
        experiments[-1]["optional"].append(line[4:line.index(":")])
out = Path(__file__).resolve().parent / "space" / "package_page.json"
out.write_text(json.dumps(experiments, indent=1) + "\n", encoding="utf-8")
