#!/usr/bin/env python3
"""Holds what `sweep --on kubernetes` prints against the published schemas, unknown fields refused:
Kubernetes' own of PyPI's kubernetes-validate, JobSet's of the models in PyPI's kubeflow-trainer-api.
Exit 77, with the reason, where these packages are not installed.

usage: manifests.py SFTBENCH
"""

import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from kubernetes_validate import utils as kubernetes_validate
    import yaml
    from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
except ImportError as missing:
    print(f"SKIPPED: {missing}; pip install kubernetes-validate kubeflow-trainer-api")
    sys.exit(77)

SPACE = """
experiments:
- experimentIdentifier: finetune_full_benchmark-v1.0.0
  actuatorIdentifier: SFTTrainer
  parameterization:
  - {property: {identifier: enable_roce}, value: true}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [llama3.1-8b]}}
- {identifier: gpu_model, propertyDomain: {values: [L40S, NVIDIA-H100-80GB-HBM3]}}
- {identifier: number_gpus, propertyDomain: {values: [0, 1, 16]}}
- {identifier: number_nodes, propertyDomain: {values: [1, 2]}}
- {identifier: model_max_length, propertyDomain: {values: [512]}}
- {identifier: batch_size, propertyDomain: {values: [16]}}
"""
SETTINGS = ["queue=team", "namespace=lab", "network=multi-nic-network", "service-account=roce", "memory=64Gi"]


def manifests(program, folder):
    space = Path(folder) / "two-kinds.yaml"
    space.write_text(SPACE)
    words = [program, "sweep", str(space), "--on", "kubernetes", "--env", "NCCL_DEBUG=INFO", "--set", "max_steps=8"]
    for setting in SETTINGS:
        words += ["--kubernetes", setting]
    printed = subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder).stdout
    return list(yaml.safe_load_all(printed))


def lost(written, read, place=""):
    """What of `written` is not in `read`, where defaults may stand beside it."""
    if isinstance(written, dict):
        for key, value in written.items():
            yield from lost(value, read.get(key) if isinstance(read, dict) else None, f"{place}/{key}")
    elif isinstance(written, list):
        same = isinstance(read, list) and len(read) == len(written)
        for index, value in enumerate(written):
            yield from lost(value, read[index] if same else None, f"{place}/{index}")
    elif written != read:
        yield place


def check_job_set(manifest):
    """Every field is one that the resource has: none is lost on the way through the models."""
    assert not list(lost({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]})) and list(lost({"a": [1]}, {"a": []}))
    read = JobsetV1alpha2JobSet.from_dict(manifest)
    unknown = list(lost(manifest, read.to_dict()))
    assert not unknown, f"{manifest['metadata']['name']}: fields that JobSet does not have: {unknown}"
    for job in manifest["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "within"}, "spec": spec}


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        documents = manifests(program, folder)
    kinds = [document["kind"] for document in documents]
    assert {"ConfigMap", "Job", "JobSet"} == set(kinds), kinds
    names = [document["metadata"]["name"] for document in documents]
    assert len(set(zip(kinds, names))) == len(names), names
    versions = [v for v in kubernetes_validate.all_versions() if tuple(map(int, v.split("."))) >= (1, 31)]
    assert versions, "kubernetes-validate knows no version that is new enough"
    checked = 0
    for document in documents:
        jobs = check_job_set(document) if document["kind"] == "JobSet" else [document]
        for job in jobs:
            for version in versions:
                kubernetes_validate.validate(job, version, strict=True)
                checked += 1
    print(f"{len(documents)} manifests ({kinds.count('Job')} Job, {kinds.count('JobSet')} JobSet), "
          f"{checked} validations against Kubernetes {versions[0]} to {versions[-1]}")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()))
