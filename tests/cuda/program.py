#!/usr/bin/env python3
"""Runs the program on phantom GPUs: a measurement, memory that ends, an access that breaks the device, a sweep over four
GPUs. usage: program.py BIN, the folder of a build for GPUs with tests"""
import glob
import json
import os
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
GIB = 1 << 30
MIB = 1 << 20
# Own kernels run as fibers on the host: these steps take a quarter of a minute. The logits of many tokens are blocks
# that the allocator keeps and can give back.
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 96, "intermediate_size": 512,
         "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3, "vocab_size": 8192,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
         "hidden_act": "silu", "torch_dtype": "float32"}
SMALL = {"gpu_model": "NVIDIA-A100-SXM4-80GB", "number_gpus": 1, "batch_size": 4,
         "model_max_length": 128, "max_steps": 2, "torch_dtype": "float32"}


def phantom(**settings):
    device = {"count": 4, "name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 80 * GIB, "major": 8, "multiprocessors": 108,
              "operators": f"{BIN}/libsftbench_phantom_operators.so"}
    return {**os.environ, "LD_PRELOAD": f"{BIN}/libsftbench_phantom.so", "LD_LIBRARY_PATH": f"{BIN}/phantom",
            "SFTBENCH_ENGINE": f"{BIN}/libsftbench_engine_on_host.so",
            "SFTBENCH_PHANTOM": json.dumps({**device, **settings})}


def without_gpus():
    """The libraries of NVIDIA that this build is linked to need not be installed: the phantom's stand in for them."""
    return {**os.environ, "LD_LIBRARY_PATH": f"{BIN}/phantom"}


def run(environment, output, *options, **settings):
    command = [f"{BIN}/sftbench", "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random",
               "--model", MODEL_FOLDER, "--no-progress", "--format", "json", "--output", output, *options]
    for name, value in {**SMALL, **settings}.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def a_measurement(output):
    result = run(phantom(), output)
    assert result["status"] == "valid", result["reason"]
    environment, extra = result["environment"], result["extra"]
    assert environment["driver"] == "phantom" and environment["cudnn"], environment
    assert environment["attention"] == ["memory-efficient"] or environment["attention"] == ["math"], environment
    assert any("phantom" in warning for warning in extra["warnings"]), extra["warnings"]
    memory = extra["memory_bytes"]
    assert memory["allocation_retries"] == [0], memory
    assert 0 < memory["device_peak_allocated"][0] <= memory["device_peak_reserved"][0], memory
    on_cpu = run(without_gpus(), output, number_gpus=0)
    assert on_cpu["status"] == "valid", on_cpu["reason"]
    for gpu, cpu in zip(extra["loss"], on_cpu["extra"]["loss"], strict=True):
        assert abs(gpu - cpu) < 1e-4, (extra["loss"], on_cpu["extra"]["loss"])
    return memory["device_peak_reserved"][0]


def memory_that_ends(output, reserved):
    """Once the states do not fit, and once only because the allocator's cache is in the way."""
    result = run(phantom(memory_bytes=24 * MIB), output)
    assert result["status"] == "invalid" and result["reason"]["code"] == "OOM_GPU", result
    assert "out of memory" in result["reason"]["evidence"], result["reason"]
    left_bytes = reserved
    for _ in range(8):
        result = run(phantom(memory_bytes=left_bytes), output)
        if result["status"] != "valid":
            break
        if result["extra"]["memory_bytes"]["allocation_retries"][0] > 0:
            assert any("ran short" in warning for warning in result["extra"]["warnings"]), result["extra"]["warnings"]
            return
        left_bytes -= 2 * MIB
    raise AssertionError(f"no memory between {left_bytes} and {reserved} bytes makes the allocator try again")


def a_broken_device(output):
    result = run(phantom(illegal_access_at=2), output)
    assert result["status"] == "invalid" and result["reason"]["code"] == "OOM_GPU", result
    assert "illegal memory access" in result["reason"]["evidence"], result["reason"]


def a_sweep(folder):
    space = os.path.join(folder, "space.yaml")
    with open(space, "w") as file:
        json.dump({"sampleStoreIdentifier": "phantom", "entitySpace": [
            {"identifier": name, "propertyDomain": {"values": value if isinstance(value, list) else [value]}}
            for name, value in {**SMALL, "number_gpus": [1, 2], "batch_size": [2, 4],
                                "distributed_backend": "FSDP"}.items()],
            "experiments": [{"experimentIdentifier": "finetune_full_benchmark-v1.0.0", "actuatorIdentifier":
                             "SFTTrainer"}]}, file)
    results = os.path.join(folder, "results")
    subprocess.run([f"{BIN}/sftbench", "sweep", space, "--model", MODEL_FOLDER, "--weights", "random", "--jobs", "2",
                    "--output", results], env=phantom(), check=True, stdout=subprocess.DEVNULL)
    report = subprocess.run([f"{BIN}/sftbench", "report", results, "--format", "json"], check=True,
                            capture_output=True, text=True).stdout
    cells = json.loads(report)
    assert len(cells) == 4, report
    for cell in cells:
        assert cell["status"] == "valid", cell
    at_once = 0
    for root, _, names in os.walk(results):
        for name in names:
            if name.endswith(".json") and not name.startswith("."):
                with open(os.path.join(root, name)) as file:
                    result = json.load(file)
                gpus = len(result["environment"]["gpus"])
                assert gpus == result["entity"]["number_gpus"], (name, result["environment"]["gpus"])
                at_once = max(at_once, result["environment"].get("concurrent_cells", 0))
    assert at_once > 0, "cells of one and two GPUs share a machine of four"


def kernels_of_a_process(folder):
    """bench/gpu/timeline.cpp writes down each kernel that the phantom device launches."""
    to = os.path.join(folder, "timeline")
    command = [f"{BIN}/sftbench", "predict", "--experiment", "finetune_full_benchmark-v1.0.0", "--exact", "--format", "json"]
    for name, value in {"model_name": "smollm2-135m", "number_gpus": 1, "gpu_model": "NVIDIA-H100-80GB-HBM3",
                        "model_max_length": 256, "batch_size": 1}.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={
        **os.environ, "CUDA_INJECTION64_PATH": f"{BIN}/libsftbench_timeline.so", "SFTBENCH_TIMELINE": to})
    [file] = glob.glob(f"{to}.*.tsv")
    with open(file) as lines:
        calls = {kernel: int(number) for number, _, kernel in (line.rstrip("\n").split("\t") for line in lines)}
    of_a_step = {kernel: number for kernel, number in json.loads(done.stdout)["exact"]["kernels"].items() if "(" in kernel}
    assert any("swiglu" in kernel for kernel in of_a_step), of_a_step
    # Three steps, less what the last buffer held.
    for kernel, number in of_a_step.items():
        assert calls[kernel] >= 2 * number, (kernel, calls[kernel], number)


def main():
    global MODEL_FOLDER
    with tempfile.TemporaryDirectory() as folder:
        MODEL_FOLDER = os.path.join(folder, "model")
        os.mkdir(MODEL_FOLDER)
        with open(os.path.join(MODEL_FOLDER, "config.json"), "w") as file:
            json.dump(MODEL, file)
        reserved = a_measurement(os.path.join(folder, "one"))
        memory_that_ends(os.path.join(folder, "oom"), reserved)
        a_broken_device(os.path.join(folder, "broken"))
        a_sweep(folder)
        kernels_of_a_process(folder)
    print("on phantom GPUs: a measurement as on the CPU, OOM_GPU, a retry, a broken device, a sweep over four, each kernel noted")


if __name__ == "__main__":
    main()
