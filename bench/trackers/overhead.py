#!/usr/bin/env python3
"""Step times with all trackers and without, in turn: what do trackers cost a step?

    python3 bench/trackers/overhead.py build/release/bin/sftbench [--rounds 6] [--steps 24]

Every round trains twice with trackers and twice without, in the order on, off, off, on, each in a process of its own. The
first steps of a process are left out. The tracking server is a stand-in in this process that answers and keeps nothing: a
real one runs on another machine.
"""
import argparse
import http.server
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading

LEFT_OUT = 4


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = 0

    def answer(self):
        Server.requests += 1
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b"{}"
        if "get-by-name" in self.path:
            body = b'{"experiment":{"experiment_id":"1"}}'
        elif self.path.endswith("runs/create"):
            body = b'{"run":{"info":{"run_id":"1"}}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def step_seconds(sftbench, folder, address, steps, tracked):
    words = [sftbench, "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random", "--set",
             "model_name=smollm2-135m", "--set", "number_gpus=0", "--set", "model_max_length=64", "--set", "batch_size=1",
             "--set", "gradient_accumulation_steps=1", "--set", f"max_steps={steps}", "--no-progress", "--format", "json",
             "-o", folder / ("on" if tracked else "off")]
    if tracked:
        words += ["--track", f"tensorboard={folder}/runs", "--track", f"mlflow={address}", "--track",
                  f"aim-info={folder}/aim.json", "--track", f"jsonl={folder}/log.jsonl"]
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    extra = json.loads(run.stdout)["extra"]
    lost = [text for text in extra["warnings"] if text.startswith("tracker")]
    if lost:
        sys.exit("\n".join(lost))
    return extra["step_seconds"][LEFT_OUT:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sftbench", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=24)
    arguments = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    times = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for tracked in (True, False, False, True):
                times[tracked].append(step_seconds(arguments.sftbench, pathlib.Path(folder), address, arguments.steps, tracked))
    of_process = {tracked: [statistics.median(run) for run in runs] for tracked, runs in times.items()}
    median = {tracked: statistics.median(sum(runs, [])) for tracked, runs in times.items()}
    draws = sorted(statistics.median(sum(random.choices(times[True], k=len(times[True])), [])) /
                   statistics.median(sum(random.choices(times[False], k=len(times[False])), [])) for _ in range(2000))
    for tracked in (False, True):
        print(f"trackers {'on ' if tracked else 'off'}: median step {1e3 * median[tracked]:.2f} ms, medians of processes "
              + ", ".join(f"{1e3 * value:.1f}" for value in of_process[tracked]))
    print(f"on / off: {median[True] / median[False]:.4f}, 95 % of bootstrap draws {draws[50]:.4f} to {draws[1949]:.4f}, "
          f"{len(times[True])} processes each, {Server.requests} requests")


if __name__ == "__main__":
    main()
