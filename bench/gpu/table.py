#!/usr/bin/env python3
"""The short table at the end of bench/gpu/run.sh, from what the script left in FOLDER; also as summary.json there.

  bench/gpu/table.py FOLDER
"""
import json
import statistics
import sys
from pathlib import Path

WARMUP_STEPS = 2  # of every run, ours and theirs: allocator, autotuning, kernels loaded on first use


def last_json(path):
    """What a process printed last, or nothing when it ended before."""
    text = path.read_text().strip() if path.exists() else ""
    if not text:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return json.loads(text.splitlines()[-1])
    except json.JSONDecodeError:
        return None


def of_ours(result):
    """Speed, memory and MFU of a measurement; its reason when it has none."""
    if result is None:
        return {"reason": "no result"}
    if result["status"] != "valid":
        return {"reason": f"{result['reason']['code']}: {result['reason']['message']}"}
    extra = result["extra"]
    seconds = extra["step_seconds"]
    tokens_per_step = extra["tokens"]["padded"] / (len(seconds) - extra["warmup_steps"])
    memory = extra["memory_bytes"]
    return {"tokens_per_s": tokens_per_step / statistics.median(seconds[WARMUP_STEPS:] or seconds),
            "mfu": extra["mfu"]["value"], "first_step_s": extra["startup_seconds"]["first_step"],
            "peak_bytes": max(memory["device_peak_allocated"] or memory["host_peak_rss"])}


def of_theirs(result):
    if result is None:
        return {"reason": "no result: see the log"}
    seconds = result["step_seconds"]
    return {"tokens_per_s": result["tokens_per_step"] / statistics.median(seconds[WARMUP_STEPS:] or seconds),
            "first_step_s": result["first_step_process_age_s"],
            "peak_bytes": result["device_peak_allocated_bytes"] or result["peak_rss_bytes"]}


def best(rounds):
    """The faster of a kind's rounds; the reason of the last when none has a figure."""
    measured = [r for r in rounds if "tokens_per_s" in r]
    return max(measured, key=lambda r: r["tokens_per_s"]) if measured else rounds[-1]


def test_summary(path):
    log = json.loads(path.read_text())
    failed = [f"{suite['name']}.{test['name']}" for suite in log["testsuites"] for test in suite["testsuite"]
              if test.get("failures")]
    return {"tests": log["tests"], "failed": failed}


def main():
    folder = Path(sys.argv[1])
    summary = {"tests": {}, "runs": {}}
    for test in ("ops_test", "model_test", "optim_test", "tuning_test", "engine_test"):
        path = folder / f"{test}.json"
        summary["tests"][test] = (test_summary(path) if path.exists()
                                  else {"tests": 0, "failed": ["ended before its end: see the log"]})
    for job in sorted(folder.glob("*.job.json")):
        name = job.name.removesuffix(".job.json")
        ours = [of_ours(last_json(path)) for path in sorted(folder.glob(f"{name}.[0-9].json"))]
        theirs = [of_theirs(last_json(path)) for path in sorted(folder.glob(f"{name}.[0-9].hf"))]
        kinds = {"sftbench": ours or [of_ours(None)], "hf_trainer": theirs}  # some jobs have no peer
        summary["runs"][name] = {kind: best(rounds) for kind, rounds in kinds.items() if rounds}
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")

    for test, result in summary["tests"].items():
        print(f"{test}: {result['tests']} tests, {len(result['failed'])} failed {' '.join(result['failed'])}")
    print(f"{'run':40}{'':12}{'tokens/s':>10}{'MFU':>7}{'peak GiB':>10}{'1st step s':>12}")
    for name, kinds in summary["runs"].items():
        for kind, figures in kinds.items():
            if "reason" in figures:
                print(f"{name:40}{kind:12}  {figures['reason'][:80]}")
                continue
            mfu = f"{figures['mfu']:.1%}" if figures.get("mfu") else ""
            print(f"{name:40}{kind:12}{figures['tokens_per_s']:10.1f}{mfu:>7}{figures['peak_bytes'] / 2**30:10.2f}"
                  f"{figures['first_step_s']:12.2f}")


if __name__ == "__main__":
    main()
