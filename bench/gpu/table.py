#!/usr/bin/env python3
"""The short table at the end of bench/gpu/run.sh, from what the script left in FOLDER; also as summary.json there.

  bench/gpu/table.py FOLDER
"""
import json
import statistics
import sys
from pathlib import Path

WARMUP_STEPS = 2  # of every run, ours and theirs: allocator, autotuning, kernels loaded on first use
TESTS = ("ops_test", "model_test", "optim_test", "tuning_test", "engine_test")
# float32 sums over two ranks in another order than over two micro-batches; products of float32 may be in TF32 in neither.
SAME_LOSS = 1e-5


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


def results(folder, name, suffix="json"):
    """Of the rounds of NAME, in their order."""
    paths = sorted(folder.glob(f"{name}.[0-9]*.{suffix}"), key=lambda path: int(path.name.split(".")[-2]))
    log = folder / f"{name}.log"
    said = log.read_text().strip().splitlines()[-1:] if log.exists() else []
    return [last_json(path) or "".join(said) or None for path in paths
            if path.name.removeprefix(f"{name}.").count(".") == 1]


def reason_of(result):
    """Why a measurement of ours has no figures; nothing when it has. A text: what its log ends with."""
    if result is None or isinstance(result, str):
        return result or "no result: see the log"
    if result["status"] != "valid":
        return f"{result['reason']['code']}: {result['reason']['message']}"
    return None


def median_step(seconds):
    return statistics.median(seconds[WARMUP_STEPS:] or seconds)


def of_ours(result):
    """Speed, memory and MFU of a measurement; its reason when it has none."""
    if reason := reason_of(result):
        return {"reason": reason}
    extra = result["extra"]
    seconds = extra["step_seconds"]
    tokens_per_step = extra["tokens"]["padded"] / (len(seconds) - extra["warmup_steps"])
    memory = extra["memory_bytes"]
    return {"tokens_per_s": tokens_per_step / median_step(seconds), "mfu": extra["mfu"]["value"],
            "first_step_s": extra["startup_seconds"]["first_step"],
            "peak_bytes": max(memory["device_peak_allocated"] or memory["host_peak_rss"])}


def of_theirs(result):
    if result is None or isinstance(result, str):
        return {"reason": result or "no result: see the log"}
    seconds = result["step_seconds"]
    return {"tokens_per_s": result["tokens_per_step"] / median_step(seconds),
            "first_step_s": result["first_step_process_age_s"],
            "peak_bytes": result["device_peak_allocated_bytes"] or result["peak_rss_bytes"]}


def best(rounds):
    """The faster of a kind's rounds; the reason of the last when none has a figure."""
    measured = [r for r in rounds if "tokens_per_s" in r]
    return max(measured, key=lambda r: r["tokens_per_s"]) if measured else rounds[-1]


# --- tests

def test_summary(path):
    log = json.loads(path.read_text())
    failed = [f"{suite['name']}.{test['name']}" for suite in log["testsuites"] for test in suite["testsuite"]
              if test.get("failures")]
    skipped = sum(test["result"] == "SKIPPED" for suite in log["testsuites"] for test in suite["testsuite"])
    return {"tests": log["tests"], "skipped": skipped, "failed": failed}


def summarize_tests(folder):
    started = [test for test in TESTS if (folder / f"{test}.log").exists()]
    return {test: test_summary(folder / f"{test}.json") if (folder / f"{test}.json").exists()
            else {"tests": 0, "skipped": 0, "failed": ["ended before its end: see the log"]} for test in started}


# --- collectives

def summarize_collectives(folder):
    """By number of ranks: each operation at its largest size, or why there is none."""
    summary = {}
    for path in sorted(folder.glob("collectives-*.md")):
        rows = [[cell.strip() for cell in line.strip("|\n ").split("|")]
                for line in path.read_text().splitlines() if line.startswith("| ") and "---" not in line][1:]
        largest = {row[0]: {"bytes": int(row[1]), "us": float(row[2]), "algbw_gb_s": float(row[3]),
                            "busbw_gb_s": float(row[4]), "right": row[5] == "yes"} for row in rows}
        log = path.with_suffix(".log").read_text().strip()
        summary[path.stem.removeprefix("collectives-")] = (
            {"operations": largest} if largest else {"reason": log.splitlines()[0] if log else "no result"})
    return summary


# --- strategies

def memory_of(result):
    """Of the rank that has most: by its tensors between steps, gathered at once, and the allocator's or process's peak."""
    extra = result["extra"]
    of_ranks = [rank["memory_bytes"] for rank in extra["ranks"]] if "ranks" in extra else [
        {key: max(value, default=0) if isinstance(value, list) else value for key, value in extra["memory_bytes"].items()}]
    most = lambda key: max(memory.get(key) or 0 for memory in of_ranks)
    return {"kept_bytes": most("parameters") + most("gradients") + most("optimizer_state"),
            "gathered_bytes": most("gathered_peak"),
            "peak_bytes": most("device_peak_allocated") or most("host_peak_rss")}


def beside(plain, distributed, tolerance):
    """A strategy's rounds beside those of the run without it, in pairs."""
    pairs = list(zip(plain, distributed))
    if reason := next((r for pair in pairs for result in pair if (r := reason_of(result))), None):
        return {"reason": reason}
    if not pairs:
        return {"reason": "no result: see the log"}
    differences = [abs(a - b) / abs(a) for one, other in pairs
                   for a, b in zip(one["extra"]["loss"], other["extra"]["loss"], strict=True)]
    ratios = [median_step(other["extra"]["step_seconds"]) / median_step(one["extra"]["step_seconds"])
              for one, other in pairs]
    return {"largest_loss_difference": max(differences), "same_losses": max(differences) <= tolerance,
            "step_ratio": statistics.median(ratios), **memory_of(distributed[0])}


def summarize_strategies(folder):
    summary = {}
    for path in sorted(folder.glob("shards-*.job.json")):
        name = path.name.removesuffix(".job.json")
        if name.endswith("-none"):
            continue
        mixed = name.split("-")[1] if name.count("-") == 2 else None
        plain = f"shards-{mixed}-none" if mixed else "shards-none"
        # One rank has nothing to add up: on a CPU its bits are the same. A GPU's libraries multiply another way when
        # they add to a gradient than when they write one. With mixed precision the layer multiplies by weights that
        # were rounded once, and keeps activations narrow that autocast widens.
        of_plain = results(folder, plain)
        on_gpu = any(not reason_of(r) and r.get("extra", {}).get("memory_bytes", {}).get("device_peak_allocated") for r in of_plain)
        summary[name] = beside(of_plain, results(folder, name), 5e-3 if mixed else 1e-3 if on_gpu else 0.0)
    for path in sorted(folder.glob("two_ranks-*.job.json")):
        name = path.name.removesuffix(".job.json")
        if name != "two_ranks-one":
            summary[name] = beside(results(folder, "two_ranks-one"), results(folder, name), SAME_LOSS)
    # The same kernels in the same order. Attention of a GPU adds up in the order in which its blocks end.
    for path in sorted(folder.glob("graph-true-*.job.json")):
        name = path.name.removesuffix(".job.json")
        launched = name.replace("graph-true-", "graph-false-")
        summary[name] = beside(results(folder, launched), results(folder, name), 1e-3)
    return summary


# --- runs

def summarize_runs(folder):
    runs = {}
    for job in sorted(folder.glob("*.job.json")):
        name = job.name.removesuffix(".job.json")
        if name.startswith(("shards-", "two_ranks-")):
            continue
        ours = [of_ours(result) for result in results(folder, name)]
        theirs = [of_theirs(result) for result in results(folder, name, "hf")]
        kinds = {"sftbench": ours or [of_ours(None)], "hf_trainer": theirs}  # some jobs have no peer
        runs[name] = {kind: best(rounds) for kind, rounds in kinds.items() if rounds}
    return runs


def print_summary(summary):
    for test, result in summary["tests"].items():
        print(f"{test}: {result['tests']} tests, {result['skipped']} skipped, {len(result['failed'])} failed "
              f"{' '.join(result['failed'])}")
    for ranks, result in summary["collectives"].items():
        if "reason" in result:
            print(f"collectives, {ranks} ranks: {result['reason'][:200]}")
        for operation, row in result.get("operations", {}).items():
            print(f"collectives, {ranks} ranks: {operation:16}{row['bytes'] / 2**20:8.0f} MiB{row['us']:12.1f} us"
                  f"{row['algbw_gb_s']:10.2f} algbw{row['busbw_gb_s']:10.2f} busbw GB/s{'' if row['right'] else '  WRONG'}")
    if summary["strategies"]:
        print(f"{'strategy':32}{'losses':>14}{'step':>9}{'kept GiB':>10}{'gathered':>10}{'peak':>8}")
    for name, row in summary["strategies"].items():
        if "reason" in row:
            print(f"{name:32}  {row['reason'][:160]}")
            continue
        losses = "equal" if row["largest_loss_difference"] == 0 else f"{row['largest_loss_difference']:.1e}"
        print(f"{name:32}{losses + ('' if row['same_losses'] else ' DIFFER'):>14}{row['step_ratio'] - 1:>+9.1%}"
              f"{row['kept_bytes'] / 2**30:10.2f}{row['gathered_bytes'] / 2**30:10.2f}{row['peak_bytes'] / 2**30:8.2f}")
    if summary["runs"]:
        print(f"{'run':48}{'':12}{'tokens/s':>10}{'MFU':>7}{'peak GiB':>10}{'1st step s':>12}")
    for name, kinds in summary["runs"].items():
        for kind, figures in kinds.items():
            if "reason" in figures:
                print(f"{name:48}{kind:12}  {figures['reason'][:80]}")
                continue
            mfu = f"{figures['mfu']:.1%}" if figures.get("mfu") else ""
            print(f"{name:48}{kind:12}{figures['tokens_per_s']:10.1f}{mfu:>7}{figures['peak_bytes'] / 2**30:10.2f}"
                  f"{figures['first_step_s']:12.2f}")


def main():
    folder = Path(sys.argv[1])
    summary = {"tests": summarize_tests(folder), "collectives": summarize_collectives(folder),
               "strategies": summarize_strategies(folder), "runs": summarize_runs(folder)}
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print_summary(summary)


if __name__ == "__main__":
    main()
