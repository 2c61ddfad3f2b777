#!/usr/bin/env python3
"""From the start of a process to the end of its first step: `sftbench run` and Hugging Face Trainer take turns.

    bench/peers/first_step.py PYTHON SFTBENCH [--dtype bfloat16 float32] [--length 512] [--rounds 5]

SmolLM2-135M, random weights, full rows, batch 1, AdamW (fused), no gradient checkpointing. PYTHON is an interpreter that
has torch and transformers, SFTBENCH the built program as users start it. A first round, in which files come into the
page cache, is left out.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from families import job_of, run

MODEL = "smollm2-135m"


def ours(program, job, folder):
    results = tempfile.mkdtemp(dir=folder)
    run([program, "run", "--job", str(job), "-o", results], folder)
    measurement = json.loads(next(pathlib.Path(results).rglob("*.json")).read_text())
    if measurement["status"] != "valid":
        sys.exit(f"{measurement['status']}: {measurement['reason']}")
    return measurement["extra"]["startup_seconds"]["first_step"], measurement["extra"]["loss"][0]


def theirs(python, job, folder):
    script = pathlib.Path(__file__).resolve().parent / "hf_trainer.py"
    result = json.loads(run([python, str(script), "--job", str(job)], folder).strip().splitlines()[-1])
    return result["first_step_process_age_s"], result["losses"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("program")
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.steps = 2
    program = str(pathlib.Path(options.program).resolve())
    print("| dtype | sftbench s | Trainer s | median of ratios | from | to |\n|---|--:|--:|--:|--:|--:|")
    for dtype in options.dtype:
        with tempfile.TemporaryDirectory() as folder:
            job = job_of(program, MODEL, {}, options, dtype, folder)
            rounds = [(ours(program, job, folder), theirs(options.python, job, folder))
                      for _ in range(options.rounds + 1)][1:]
        for (_, loss), (_, other) in rounds:
            if abs(loss - other) > 0.02 * other:
                sys.exit(f"first losses {loss} and {other}: this is not the same work")
        ratios = sorted(mine / other for (mine, _), (other, _) in rounds)
        mine, other = (statistics.median(r[i][0] for r in rounds) for i in (0, 1))
        print(f"| {dtype} | {mine:.2f} | {other:.2f} | {statistics.median(ratios):.3f} | {ratios[0]:.3f} | "
              f"{ratios[-1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
