#!/usr/bin/env python3
"""The table of what bench/gpu/run.py found, from its work folder or from archives of it, which come together.

  bench/gpu/table.py FOLDER-OR-ARCHIVE...
"""
import json
import re
import statistics
import sys
import tarfile
import tempfile
from pathlib import Path

WARMUP_STEPS = 2  # of every run, ours and theirs: allocator, kernels loaded on first use
GIB = 2**30
FILE = re.compile(r"(?P<name>.+)\.(?P<number>\d+)\.(?P<ending>.+)")


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def last_json(path):
    """What a process printed last, or nothing when it ended before."""
    text = path.read_text(errors="replace").strip() if path.exists() else ""
    for candidate in filter(None, (text, text.splitlines()[-1] if text else "")):
        try:
            return json.loads(candidate)
        except json.JSONDecodeError:
            pass
    return None


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1].strip() if lines else ""


class Results:
    """The files of a work folder by name and ending."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.rows = rows_of(self.folder / "steps.jsonl")

    def rounds(self, name, ending):
        paths = sorted(self.folder.glob(f"{name}.*.{ending}"), key=lambda path: int(FILE.fullmatch(path.name)["number"]))
        return [last_json(path) for path in paths]

    def names(self, ending):
        """In the order in which they ran."""
        return list(dict.fromkeys(row["step"] for row in self.rows if row["ending"] == ending))

    def outcome(self, name, ending):
        """Why a process has no result."""
        row = next(row for row in reversed(self.rows) if (row["step"], row["ending"]) == (name, ending))
        logs = sorted(self.folder.glob(f"{name}.*.log"))
        said = next(filter(None, (last_line(path) for path in reversed(logs))), "")
        return f"{row['outcome']}{': ' if said else ''}{said}"


# --- runs --------------------------------------------------------------------------------------------------------------

def reason_of(result):
    """Why a measurement of ours has no figures; nothing when it has."""
    return None if result["status"] == "valid" else f"{result['reason']['code']}: {result['reason']['message']}"


def median_step(seconds):
    return statistics.median(seconds[WARMUP_STEPS:] or seconds)


def of_ours(result):
    """Speed, memory, losses and MFU of a measurement; its reason when it has none."""
    if reason := reason_of(result):
        return {"reason": reason}
    extra = result["extra"]
    seconds, memory = extra["step_seconds"], extra["memory_bytes"]
    tokens_per_step = extra["tokens"]["padded"] / (len(seconds) - extra["warmup_steps"])
    return {"tokens_per_s": tokens_per_step / median_step(seconds), "mfu": extra["mfu"]["value"], "losses": extra["loss"],
            "first_step_s": extra["startup_seconds"]["first_step"], "step_seconds": seconds,
            "attention": result["environment"].get("attention", []),
            "kept_bytes": sum(sum(memory.get(key) or [0]) for key in ("parameters", "gradients", "optimizer_state")),
            "peak_bytes": max(memory["device_peak_allocated"] or memory["host_peak_rss"])}


def of_theirs(result):
    seconds = result["step_seconds"]
    return {"tokens_per_s": result["tokens_per_step"] / median_step(seconds), "losses": result["losses"],
            "first_step_s": result["first_step_process_age_s"], "step_seconds": seconds, "liger": result["liger"],
            "peak_bytes": result["device_peak_allocated_bytes"] or result["peak_rss_bytes"]}


def best(results, name, ending, figures):
    """The fastest round; the reason of the last when none has a figure."""
    rounds = [figures(result) for result in results.rounds(name, ending) if result]
    measured = [one for one in rounds if "tokens_per_s" in one]
    if measured:
        return max(measured, key=lambda one: one["tokens_per_s"])
    return rounds[-1] if rounds else {"reason": results.outcome(name, ending)}


def runs(results):
    return {name: best(results, name, "result.json", of_ours) for name in results.names("result.json")}


def peers(results):
    return {name: best(results, name, "hf.json", of_theirs) for name in results.names("hf.json")}


def difference(ours, theirs):
    """The largest one of losses, as a share; nothing where one side has none."""
    if not ours.get("losses") or not theirs.get("losses"):
        return None
    return max(abs(a - b) / abs(b) for a, b in zip(ours["losses"], theirs["losses"]))


# Runs that must have the losses of another, and how near. A GPU's libraries add up in other orders than a CPU's, and
# attention in the order in which its blocks end.
SAME_LOSSES = (("losses-float32", "losses-float32-cpu", 1e-4), ("graph-true-full-135m", "graph-false-full-135m", 1e-3),
               *((f"two-ranks-{strategy}", "two-ranks-one", 1e-5)
                 for strategy in ("NO_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD")))


def same_losses(of_runs):
    """Pairs whose two runs were asked for."""
    pairs = {}
    for one, other, tolerance in SAME_LOSSES:
        if one in of_runs and other in of_runs:
            found = difference(of_runs[one], of_runs[other])
            pairs[one] = {"as": other, "difference": found, "held": found is not None and found <= tolerance}
            if found is not None:
                pairs[one]["step_ratio"] = (median_step(of_runs[one]["step_seconds"]) /
                                            median_step(of_runs[other]["step_seconds"]))
    return pairs


# --- tests, tools, ceilings --------------------------------------------------------------------------------------------

def tests(results):
    summary = {}
    for name in results.names("tests.json"):
        rounds = results.rounds(name, "tests.json")
        log = rounds[-1] if rounds else None
        if not log:
            summary[name] = {"tests": 0, "skipped": 0, "failed": [], "reason": results.outcome(name, "tests.json")}
            continue
        each = [(f"{suite['name']}.{test['name']}", test) for suite in log["testsuites"] for test in suite["testsuite"]]
        summary[name] = {"tests": len(each), "skipped": sum(test["result"] == "SKIPPED" for _, test in each),
                         "failed": [name for name, test in each if test.get("failures")]}
    return summary


def sanitizer(results):
    """By kernel: how many errors, and what the first says and of which kernel."""
    found = {}
    for path in sorted(results.folder.glob("sanitizer-*.txt")):
        name, text = FILE.fullmatch(path.name)["name"], path.read_text(errors="replace")
        count = re.search(r"ERROR SUMMARY: (\d+) error", text)
        first = re.search(r"=+ (Invalid .*|Program hit .*)\n(?:=+ +at (.*)\n)?", text)
        found[name] = ({"errors": int(count[1]), "first": " ".join(filter(None, first.groups())) if first else ""} if count
                       else {"reason": results.outcome(name, "txt")})
    return found


def short(kernel):
    """A kernel's name without what its templates were given."""
    return re.sub(r"^void |<.*|\(.*", "", kernel).replace("(anonymous namespace)::", "")


def timelines(results):
    """By goal: where a step's time goes, by kernel. Each process of a run leaves a file: the one that trained has most."""
    found = {}
    for path in results.folder.glob("*.timeline.*"):
        kernels = {kernel: (int(calls), int(nanoseconds)) for calls, nanoseconds, kernel in
                   (line.split("\t") for line in path.read_text().splitlines())}
        name = path.name.split(".timeline.")[0]
        if sum(calls for calls, _ in kernels.values()) > sum(calls for calls, _ in found.get(name, {}).values()):
            found[name] = kernels
    by_goal = {}
    for name, kernels in found.items():
        run = best(results, f"{name}-timeline", "result.json", of_ours)
        steps = len(run.get("step_seconds", [])) or 1
        sums = {}
        for kernel, (calls, nanoseconds) in kernels.items():
            before = sums.get(short(kernel), (0, 0))
            sums[short(kernel)] = (before[0] + calls, before[1] + nanoseconds)
        busy_s = sum(nanoseconds for _, nanoseconds in sums.values()) / 1e9
        by_goal[name] = {"steps": steps, "busy_share": busy_s / sum(run["step_seconds"]) if "step_seconds" in run else None,
                         "kernels": {kernel: {"calls": calls / steps, "ms": nanoseconds / steps / 1e6} for kernel, (calls, nanoseconds)
                                     in sorted(sums.items(), key=lambda item: -item[1][1])}}
    return by_goal


def ceilings(results):
    found = {}
    for name in (name for name in results.names("json") if name.startswith("ceilings-")):
        rounds = [result for result in results.rounds(name, "json") if result]
        found[name.removeprefix("ceilings-")] = rounds[-1] if rounds else {"reason": results.outcome(name, "json")}
    return found


def summary_of(folder):
    results = Results(folder)
    of_runs, of_peers = runs(results), peers(results)
    factors = {name: {"factor": of_runs[name]["tokens_per_s"] / theirs["tokens_per_s"],
                      "loss_difference": difference(of_runs[name], theirs), "liger": theirs["liger"]}
               for name, theirs in of_peers.items() if "tokens_per_s" in theirs and "tokens_per_s" in of_runs.get(name, {})}
    return {"processes": results.rows, "tests": tests(results), "sanitizer": sanitizer(results), "ceilings": ceilings(results),
            "runs": of_runs, "peers": of_peers, "factors": factors, "same_losses": same_losses(of_runs),
            "timelines": timelines(results), "collectives": {
                path.name: path.read_text() for path in sorted(results.folder.glob("collectives-*.md"))}}


# --- as text -----------------------------------------------------------------------------------------------------------

def text_of_tests(summary):
    for name, result in summary["tests"].items():
        says = f"{len(result['failed'])} failed {' '.join(result['failed'])}" if "reason" not in result else result["reason"]
        yield f"{name:28}{result['tests']:4} tests, {result['skipped']} skipped, {says}"[:220]
    unknown = {}
    for name, result in summary["sanitizer"].items():
        if "reason" in result:
            unknown.setdefault(result["reason"], []).append(name)
        else:
            yield f"{name:28}{result['errors']:4} errors {result['first']}"[:220]
    for reason, names in unknown.items():
        yield f"{len(names)} of the sanitizer: {reason}"[:220]


def text_of_ceilings(summary):
    for name, rows in summary["ceilings"].items():
        if "reason" in rows:
            yield f"ceiling of {name}: {rows['reason']}"[:220]
            continue
        for row, figures in rows.items():
            yield f"{name + ': ' + row:60}" + "  ".join(
                f"{value:.4g} {unit}" if isinstance(value, float) else f"{unit} {value}" for unit, value in figures.items())


def text_of_runs(summary):
    if summary["runs"]:
        yield f"{'run':46}{'':10}{'tokens/s':>10}{'MFU':>7}{'peak GiB':>10}{'1st step s':>11}  first and last loss, attention"
    for name, ours in summary["runs"].items():
        for kind, figures in (("sftbench", ours), ("hf", summary["peers"].get(name))):
            if figures is None:
                continue
            if "reason" in figures:
                yield f"{name:46}{kind:10}  {figures['reason']}"[:220]
                continue
            mfu = f"{figures['mfu']:.1%}" if figures.get("mfu") else ""
            yield (f"{name:46}{kind:10}{figures['tokens_per_s']:10.1f}{mfu:>7}{figures['peak_bytes'] / GIB:10.2f}"
                   f"{figures['first_step_s']:11.2f}  {figures['losses'][0]:.4f} {figures['losses'][-1]:.4f} "
                   f"{' '.join(figures.get('attention', []))}{'with Liger' if figures.get('liger') else ''}").rstrip()
    for name, found in summary["factors"].items():
        yield f"{name:46}{found['factor']:.2f} times Trainer{' with Liger' if found['liger'] else ''}, losses " + (
            f"differ by {found['loss_difference']:.1e}" if found["loss_difference"] is not None else "unknown")
    for name, found in summary["same_losses"].items():
        says = "no losses" if found["difference"] is None else f"losses differ by {found['difference']:.1e}"
        ratio = f", steps take {found['step_ratio']:.3f} of its time" if "step_ratio" in found else ""
        yield f"{name:46}as {found['as']}: {says}{'' if found['held'] else ' WRONG'}{ratio}"


def text_of_timelines(summary, most=25):
    for name in summary["runs"]:
        if name.endswith("-timeline") and name.removesuffix("-timeline") not in summary["timelines"]:
            yield f"one step of {name.removesuffix('-timeline')}: no kernels were written down"
    for name, found in summary["timelines"].items():
        busy = f", busy for {found['busy_share']:.1%} of it" if found["busy_share"] else ""
        yield f"one step of {name}{busy}"
        for kernel, figures in list(found["kernels"].items())[:most]:
            yield f"  {figures['ms']:9.3f} ms {figures['calls']:8.1f} calls  {kernel}"[:160]


def text_of(summary):
    lines = [*text_of_tests(summary), *text_of_ceilings(summary), *text_of_timelines(summary), *text_of_runs(summary)]
    for name, text in summary["collectives"].items():
        lines += [name, text.rstrip()]
    failed = {}
    for row in summary["processes"]:
        if row["outcome"] != "ok":
            failed.setdefault(row["outcome"], []).append(row["step"])
    seconds = sum(row["seconds"] for row in summary["processes"])
    lines.append(f"{len(summary['processes'])} processes, {seconds:.0f} s of them, {sum(map(len, failed.values()))} not ok")
    lines += [f"{outcome}: {' '.join(steps)}" for outcome, steps in failed.items()]
    return "\n".join(lines) + "\n"


# --- several archives --------------------------------------------------------------------------------------------------

def put_together(archives, folder):
    """Rounds of equal names get numbers of their own. A file that two archives share is one round."""
    seen = set()
    for archive in archives:
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                content = tar.extractfile(member).read()
                name, number = member.name, 1
                if match := FILE.fullmatch(name):
                    if (match["name"], match["ending"], content) in seen:
                        continue
                    seen.add((match["name"], match["ending"], content))
                    while (folder / f"{match['name']}.{number}.{match['ending']}").exists():
                        number += 1
                    name = f"{match['name']}.{number}.{match['ending']}"
                elif name == "steps.jsonl" and (folder / name).exists():
                    before = (folder / name).read_bytes()
                    content = before + b"".join(line for line in content.splitlines(keepends=True) if line not in before)
                (folder / name).write_bytes(content)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as together:
        if Path(sys.argv[1]).is_dir():
            folder = Path(sys.argv[1])
        else:
            folder = Path(together)
            put_together(sys.argv[1:], folder)
        print(text_of(summary_of(folder)), end="")


if __name__ == "__main__":
    main()
