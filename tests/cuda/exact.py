#!/usr/bin/env python3
"""Holds `predict --exact` to what must be so whatever the kernels take: usage: exact.py SFTBENCH"""
import json
import subprocess
import sys

PROGRAM = sys.argv[1]


def predict(method="full", **settings):
    command = [PROGRAM, "predict", "--experiment", f"finetune_{method}_benchmark-v1.0.0", "--exact", "--format", "json"]
    for name, value in settings.items():
        command += [name, value] if name.startswith("--") else ["--set", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 3), done
    answer = json.loads(done.stdout)
    assert (done.returncode == 3) == (answer["exact"]["verdict"] == "oom"), (command, answer["exact"]["verdict"])
    return answer


def main():
    small = {"model_name": "smollm2-135m", "number_gpus": 1, "gpu_model": "NVIDIA-H100-80GB-HBM3",
             "model_max_length": 512, "batch_size": 2}
    first, again = predict(**small), predict(**small)
    exact, parts = first["exact"], first["memory_bytes"]
    at_rest = parts["parameters"] + parts["gradients"] + parts["optimizer_state"]
    assert exact["verdict"] == "fits", exact
    assert at_rest < exact["allocated_peak_bytes"] <= exact["reserved_peak_bytes"] <= exact["memory_bytes"], exact
    for figure in ("allocated_peak_bytes", "reserved_peak_bytes", "launches_per_step"):
        assert exact[figure] == again["exact"][figure], f"{figure} differs between two runs"

    alone = predict(**{**small, "batch_size": 2})["exact"]["allocated_peak_bytes"]
    divided = predict(**{**small, "number_gpus": 8, "batch_size": 16, "distributed_backend": "FSDP"})["exact"]
    assert divided["allocated_peak_bytes"] < alone, "a rank of eight holds an eighth of the states"

    # No router computes here: every expert is taken to get as many tokens as every other.
    mixture = {"model_name": "granite-3.0-1b-a400m-base", "number_gpus": 1, "gpu_model": "NVIDIA-H100-80GB-HBM3",
               "model_max_length": 1024, "batch_size": 2}
    launches = {}
    for method, more in (("full", {}), ("lora", {}), ("lora", {"gradient_checkpointing": "false"})):
        both = predict(method, **mixture, **more)
        assert both["exact"]["assumes_even_experts"] and not first["exact"]["assumes_even_experts"]
        peak = both["exact"]["allocated_peak_bytes"]
        assert abs(both["memory_bytes"]["total"] / peak - 1) < 0.03, (method, more, both["memory_bytes"], both["exact"])
        launches.setdefault(method, both["exact"]["launches_per_step"])
    # All experts of a product are one launch where libtorch has a kernel for them, and 32 where it has none.
    older = predict(**{**mixture, "gpu_model": "NVIDIA-A100-SXM4-80GB"})["exact"]["launches_per_step"]
    assert launches["full"] < 14000 < 30000 < older, (launches, older)

    # Attention with sinks is FlashAttention's, and a bias of all experts is one launch: 105,265 launches before.
    with_sinks = predict(model_name="gpt-oss-20b", number_gpus=8, gpu_model="NVIDIA-H100-80GB-HBM3",
                         model_max_length=1024, batch_size=32, distributed_backend="FSDP")["exact"]
    assert with_sinks["launches_per_step"] < 25000, with_sinks

    # The whole step as one graph: the host launches once, and nothing else is allocated.
    whole_step = {**small, "gradient_checkpointing": "false", "--padding": "max_length"}
    launched, graph = (predict(**whole_step, step_graph=value)["exact"] for value in ("false", "true"))
    assert launched["graph_nodes_per_step"] == 0 and launched["launches_per_step"] > 1000, launched
    assert graph["launches_per_step"] == 1 and graph["kernels"] == {"cudaGraphLaunch": 1}, graph
    assert launched["launches_per_step"] <= graph["graph_nodes_per_step"] < launched["launches_per_step"] + 100, graph
    assert abs(graph["allocated_peak_bytes"] / launched["allocated_peak_bytes"] - 1) < 0.01, (graph, launched)
    assert graph["reserved_peak_bytes"] < 1.2 * launched["reserved_peak_bytes"], (graph, launched)

    # What layers keep, and what their backward passes hold, is counted by arithmetic as it is allocated.
    whole = {"gradient_checkpointing": "false"}
    adapters = {**whole, "--lora-targets": "all-linear", "--lora-r": "16"}
    for method, more in (("full", {}), ("lora", whole), ("lora", {**adapters, "--lora-dropout": "0"}),
                         ("lora", {**adapters, "--lora-dropout": "0.1"})):
        both = predict(method, model_name="llama3.2-1b", number_gpus=1, gpu_model="NVIDIA-H100-80GB-HBM3",
                       model_max_length=1024, batch_size=2, **more)
        peak = both["exact"]["allocated_peak_bytes"]
        assert abs(both["memory_bytes"]["total"] / peak - 1) < 0.03, (method, both["memory_bytes"], both["exact"])
        held = both["exact"]["peak"]["held_bytes"]
        assert abs(sum(held.values()) / peak - 1) < 0.01, (method, held, peak)

    # All chunks of a scan at once: a chunk after the other took 460,241 launches.
    hybrid = predict(model_name="granite-4.0-h-1b", number_gpus=1, gpu_model="NVIDIA-H100-80GB-HBM3",
                     model_max_length=2048, batch_size=4)
    peak = hybrid["exact"]["allocated_peak_bytes"]
    assert abs(hybrid["memory_bytes"]["total"] / peak - 1) < 0.03, (hybrid["memory_bytes"], hybrid["exact"])
    assert hybrid["exact"]["launches_per_step"] < 35000, hybrid["exact"]

    large = predict(model_name="llama3.1-8b", number_gpus=1, gpu_model="Tesla-T4", model_max_length=512, batch_size=1,
                    torch_dtype="float16")["exact"]
    assert large["verdict"] == "oom", large["verdict"]
    assert large["allocated_peak_bytes"] > large["memory_bytes"], "how much it would need"
    print("predict --exact: repeats itself, divides states over ranks, and says what does not fit")


if __name__ == "__main__":
    main()
