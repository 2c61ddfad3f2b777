"""Training jobs for two_hosts.sh, small enough for four ranks on two cores, and checks of their results.

  jobs.py make SFTBENCH FOLDER          FOLDER/one.json, and for four ranks FOLDER/<STRATEGY>.json, endless.json
  jobs.py losses ONE OTHER LAUNCHER     both results valid, the same losses, started by LAUNCHER
  jobs.py cells RESULTS N LAUNCHER      N results, all valid, of four ranks each, started by LAUNCHER
  jobs.py bytes RESULT SENT SENT        bytes that have left each host against the program's own counters
  jobs.py rate RESULT TIMES             megabit/s of a link over which a step's communication takes TIMES as long as its
                                        computing, which RESULT, over a fast link, tells
  jobs.py overlap FAST SLOW RATE        over such a link both go on at the same time
  jobs.py failed RESULT CODE RANKS      failed with CODE, naming one of RANKS (a,b,...)
"""
import copy
import glob
import json
import os
import subprocess
import sys
from pathlib import Path

RANKS = 4
STEPS = 4
# The longer of computing and communicating may be exceeded by so much: what both do to one another on shared cores,
# and the ends of a step, where one has to wait for the other.
OVERLAP = 1.10
# Of what a link passes, the part that is no header (66 of 1514 bytes) and no acknowledgement (66 bytes for every two
# frames that come).
PAYLOAD = 0.93
ROW_LENGTH = int(os.environ.get("ROW_LENGTH", 32768))
# A row four times as long has sixteen times the attention: such rows get a model of a quarter.
ROW_LAYERS, ROW_WIDTH = (2, 64) if ROW_LENGTH <= 32768 else (1, 32)
VOCABULARY = 8192  # of the tokenizer that is used
# Float32 sums over ranks come in another order than one process's; losses here are about 9.
LOSS_TOLERANCE = 1e-5
# On the wire are also headers (66 of 1514 bytes at most), acknowledgements of what came, and what the ranks and
# their launcher say beside tensors.
HEADERS = 1.10
TALK_BYTES = 256 * 1024


def result_of(path):
    """FILE itself, or the one result below a folder."""
    found = [path] if path.endswith(".json") else glob.glob(f"{path}/**/*.json", recursive=True)
    assert len(found) == 1, f"{path}: {len(found)} results"
    return json.loads(Path(found[0]).read_text())


def make(program, folder):
    folder = Path(folder)
    data = folder / "data" / "news-tokens-16384plus-entries-4096.jsonl"
    data.parent.mkdir()
    with data.open("w") as file:
        for i in range(64):
            words = " ".join(f"w{(37 * i + 11 * k) % 211}" for k in range(8 + i % 7))
            file.write(json.dumps({"output": f"q{i}\n### Response: {words}"}) + "\n")
    config = folder / "config.yaml"
    config.write_text(f"actuatorIdentifier: SFTTrainer\nparameters: {{data_directory: {data.parent}}}\n")
    settings = {"model_name": "smollm2-135m", "number_gpus": 0, "model_max_length": 64, "batch_size": 8,
                "max_steps": STEPS, "gradient_accumulation_steps": 2, "torch_dtype": "float32"}
    words = [program, "run", "--dry-run", "--experiment", "finetune_full_benchmark-v1.0.0", "--config", str(config),
             "--weights", "random", "--threads", "1"]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    job = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    of_smollm2 = copy.deepcopy(job)
    job["model"]["hf_config"].pop("head_dim", None)
    job["model"]["hf_config"].update(hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=4,
                                     num_key_value_heads=2, vocab_size=2048)

    def write(name, **parallel):
        job["parallel"].update(parallel)
        (folder / f"{name}.json").write_text(json.dumps(job))

    write("one")
    job["device"]["ranks"] = RANKS
    job["batches"]["per_device_batch_size"] //= RANKS
    for strategy in ("FULL_SHARD", "HYBRID_SHARD"):
        write(strategy, strategy=strategy, timeout_s=60)
    job["batches"]["max_steps"] = 100000
    write("endless", strategy="FULL_SHARD", timeout_s=5)
    # The layers of SmolLM2-135M. Its vocabulary of 49152 would make the root unit as large as eight layers: it is
    # gathered before the first computation and reduced after the last, beside nothing.
    job.update(of_smollm2)
    job["model"]["hf_config"].update(vocab_size=VOCABULARY)
    # One rank on each host, one core for each.
    job["device"]["ranks"] = 2
    job["batches"].update(max_steps=4, per_device_batch_size=16, gradient_accumulation_steps=1)
    job["data"].update(padding="max_length", model_max_length=256)
    # Recomputing makes backward longer in computing alone: what is equal over a step would not be in its halves.
    job["activations"]["gradient_checkpointing"] = False
    write("overlap", strategy="FULL_SHARD", timeout_s=60)
    # One row on both hosts, long enough that attention is what is computed.
    job["batches"].update(max_steps=3, per_device_batch_size=1)
    job["data"].update(model_max_length=ROW_LENGTH)
    job["model"]["hf_config"].update(hidden_size=ROW_WIDTH, intermediate_size=160, num_hidden_layers=ROW_LAYERS,
                                     num_attention_heads=ROW_WIDTH // 16, num_key_value_heads=ROW_WIDTH // 16,
                                     vocab_size=2048, max_position_embeddings=ROW_LENGTH)
    write("rows", strategy="DDP", context_ranks=2, timeout_s=60)


def losses(one, other, launcher):
    one, other = result_of(one), result_of(other)
    for result in (one, other):
        assert result["status"] == "valid", result["reason"]
    assert other["environment"]["launcher"] == launcher, other["environment"]["launcher"]
    assert len(other["extra"]["loss"]) == STEPS
    worst = max(abs(a - b) for a, b in zip(one["extra"]["loss"], other["extra"]["loss"]))
    assert worst <= LOSS_TOLERANCE, (one["extra"]["loss"], other["extra"]["loss"])
    ranks = [(rank["rank"], rank["node"], rank["host"]) for rank in other["extra"]["ranks"]]
    assert ranks == [(0, 0, "n1"), (1, 0, "n1"), (2, 1, "n2"), (3, 1, "n2")], ranks
    print(f"  losses {' '.join(f'{loss:.6f}' for loss in other['extra']['loss'])}, one process's within {worst:.1e}")


def cells(results, number, launcher):
    found = [json.loads(Path(path).read_text()) for path in glob.glob(f"{results}/**/*.json", recursive=True)]
    assert len(found) == int(number), f"{results}: {len(found)} results"
    for result in found:
        assert result["status"] == "valid", result["reason"]
        assert result["environment"]["launcher"] == launcher, result["environment"]["launcher"]
        assert [rank["host"] for rank in result["extra"]["ranks"]] == ["n1", "n1", "n2", "n2"], result["extra"]["ranks"]
    print(f"  {number} cells, each on both hosts")


def bytes_between_hosts(result):
    """That each host sends to the other, by the program's counters: under HYBRID_SHARD the replicas' share alone."""
    communication = result_of(result)["extra"]["communication"]["collectives"]
    of_replicas = [c for c in communication if c["group"] == "replicas"]
    assert of_replicas, communication
    per_rank = sum(c["sent_bytes_per_step"]["max"] for c in of_replicas)
    return per_rank * STEPS * RANKS // 2


def check_bytes(result, *sent):
    counted = bytes_between_hosts(result)
    for host, wire in zip(("n1", "n2"), map(int, sent)):
        print(f"  {host} sent {wire} bytes to the other host, {wire / counted:.4f} of the {counted:.0f} counted")
        assert counted <= wire <= counted * HEADERS + TALK_BYTES, (host, wire, counted)


def step_seconds(result):
    """Of the ranks' median steps the longest."""
    assert result["status"] == "valid", result["reason"]
    return max(rank["step_seconds"]["median"] for rank in result["extra"]["ranks"])


def sent_bytes(result):
    collectives = result["extra"]["communication"]["collectives"]
    return sum(c["sent_bytes_per_step"]["max"] for c in collectives)


def rate(result, times):
    result = result_of(result)
    compute_s = max(rank["busy_seconds"] for rank in result["extra"]["ranks"])
    print(max(1, round(sent_bytes(result) * 8e-6 / PAYLOAD / (float(times) * compute_s))))


def overlap(fast, slow, mbit_per_s):
    """The communicator's own clock says how long operations take on this link; were they not beside the computing, a
    step would take both."""
    fast, slow = result_of(fast), result_of(slow)
    compute_s = max(rank["busy_seconds"] for rank in fast["extra"]["ranks"])
    collectives = slow["extra"]["communication"]["collectives"]
    communication_s = sum(c["seconds_per_step"] for c in collectives)
    # What nothing is computed beside: the first unit that is gathered, the first block of a row.
    brings = [c for c in collectives if c["group"] == "context" or c["operation"] == "all_gather"]
    first = max(brings, key=lambda c: c["group"] == "context")
    first_s = first["seconds_per_step"] / first["calls_per_step"]
    bound_s = OVERLAP * max(compute_s, communication_s) + first_s
    step_s = step_seconds(slow)
    print(f"  computing {compute_s:.3f} s, communication {communication_s:.3f} s at {mbit_per_s} Mbit/s, first of it "
          f"{first_s:.3f} s: step {step_s:.3f} s, bound {bound_s:.3f} s, one after the other "
          f"{compute_s + communication_s:.3f} s")
    assert step_s <= bound_s


def failed(result, code, ranks):
    result = result_of(result)
    reason = result["reason"]
    assert result["status"] == "failed" and reason["code"] == code, (result["status"], reason)
    assert any(f"rank {rank}" in reason["message"] for rank in ranks.split(",")), reason["message"]
    assert not result["measured"], result["measured"]
    print(f"  {reason['code']}: {reason['message']}")


if __name__ == "__main__":
    {"make": make, "losses": losses, "cells": cells, "bytes": check_bytes, "rate": rate, "overlap": overlap,
     "failed": failed}[sys.argv[1]](*sys.argv[2:])
