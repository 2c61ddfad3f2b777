#!/usr/bin/env python3
"""Whether this actuator has all of ado's own experiments: each experiment of ado-sfttrainer, with its properties, domains,
defaults and measured properties, is one of ours by ado's own rules, and lists them in the same order. QLoRA is beside them.
usage: compare.py FOLDER      where `pip install --no-deps --target FOLDER ado-sfttrainer` put it"""
import sys
from pathlib import Path

import ado_sftbench.actuator
from ado.schema.experiment import check_experiment_interface_compatible

ours = {each.identifier: each for each in ado_sftbench.actuator.SFTTrainer.catalog().experiments}
sys.path += [sys.argv[1], str(Path(__file__).parents[2] / "tests/reference")]
import ado_files  # noqa: E402, F401  what ado's actuator needs to train stands in as empty modules

from ado_actuators.sfttrainer.actuators import SFTTrainer  # noqa: E402

found = []
theirs = {each.identifier: each for each in SFTTrainer.catalog().experiments}
if sorted(ours) != sorted([*theirs, "finetune_qlora_benchmark-v1.0.0"]):
    found.append(f"the experiments are {sorted(ours)}; expected {sorted(theirs)} and QLoRA")
for name in ours.keys() & theirs.keys():
    found += [f"{name}: {issue}" for issue in check_experiment_interface_compatible(theirs[name], ours[name])]
    orders = [[each.identifier for each in experiment.targetProperties] for experiment in (ours[name], theirs[name])]
    if orders[0] != orders[1]:
        found.append(f"{name}: measured are {orders[0]}; expected {orders[1]}")
    names = [sorted(p.identifier for p in experiment.requiredProperties + experiment.optionalProperties)
             for experiment in (ours[name], theirs[name])]
    if names[0] != names[1]:
        found.append(f"{name}: the properties are {names[0]}; expected {names[1]}")
print("\n".join(found) or f"compare.py: {len(theirs)} experiments are those of ado-sfttrainer")
sys.exit(1 if found else 0)
