#!/usr/bin/env python3
"""Trains a small model under all trackers and reads what they got with the readers of others: TensorBoard's own,
a real MLflow server, pandas, and ado's reader of --aim_info_path. Every value must be that of the measurement.

    tests/trackers/read_back.py SFTBENCH [--venv DIR] [--ado metrics_tracker.py]

Uses the packages of this interpreter, or of a virtual environment that --venv names, which is made and filled from PyPI
where it is not there. Ends with 77 and says why where the packages cannot be had. metrics_tracker.py is that of ado's
SFTTrainer plugin (wrapper_fms_hf_tuning/callbacks); without it that part is left out, and said.
"""
import argparse
import gzip
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import types
import urllib.request

PACKAGES = ["tensorboard==2.21.0", "mlflow==3.17.2", "pandas"]
STEPS = 6


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def enter_environment(venv):
    """Runs this script again under the interpreter that has the packages."""
    if all(importlib.util.find_spec(name) for name in ("tensorboard", "mlflow", "pandas")):
        return
    if venv is None:
        skip("tensorboard, mlflow and pandas are not installed here; --venv DIR installs them")
    python = venv / "bin/python"
    if not python.exists():
        made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True)
        if made.returncode:
            skip(f"no virtual environment: {made.stderr.strip() or made.stdout.strip()}")
    if os.path.realpath(sys.prefix) == os.path.realpath(venv):
        skip(f"{venv} lacks the packages")
    found = subprocess.run([python, "-c", "import tensorboard, mlflow, pandas"], capture_output=True)
    if found.returncode:
        pip = subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True)
        if pip.returncode:
            skip(f"PyPI: {pip.stderr.strip().splitlines()[-1]}")
    os.execv(python, [str(python), *sys.argv])


def start_mlflow(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
         "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--default-artifact-root", f"{folder}/artifacts"],
        stdout=open(folder / "mlflow.log", "w"), stderr=subprocess.STDOUT, env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "1"},
        start_new_session=True)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(address + "/health", timeout=2).read()
            return server, address
        except OSError:
            time.sleep(0.5)
    server.kill()
    sys.exit("mlflow server did not start:\n" + (folder / "mlflow.log").read_text()[-2000:])


def measure(sftbench, folder, address):
    command = [sftbench, "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random",
               "--set", "model_name=smollm2-135m", "--set", "number_gpus=0", "--set", "model_max_length=64",
               "--set", "batch_size=1", "--set", f"max_steps={STEPS}", "--sample-period", "0.1",
               "-o", folder / "results", "--format", "json", "--no-progress",
               "--track", f"tensorboard={folder}/runs", "--track", f"mlflow={address}",
               "--track", f"aim-info={folder}/aim.json", "--track", f"jsonl={folder}/log.jsonl"]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"sftbench ended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)


class Checks:
    def __init__(self):
        self.failures = 0

    def equal(self, what, found, expected):
        good = list(found) == list(expected)
        self.failures += not good
        print(f"{'ok  ' if good else 'BAD '} {what}" + ("" if good else f": {list(found)}, not {list(expected)}"))


def series_of(folder, measurement):
    described = measurement["extra"]["series"]
    path = next((folder / "results").rglob(described["file"]))
    return json.loads(gzip.decompress(path.read_bytes()))


def cpu_percents(series):
    process = series["processes"][0]
    times, seconds = process["time_s"], process["cpu_seconds"]
    return [100 * (seconds[i] - seconds[i - 1]) / (times[i] - times[i - 1]) for i in range(1, len(times))]


def check_tensorboard(checks, folder, measurement, series):
    import numpy
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    [run] = [path for path in (folder / "runs").iterdir()]
    checks.equal("TensorBoard: the folder is named by key and entity", [run.name[:200]],
                 [(measurement["key"] + "-" + measurement["entity_id"])[:200]])
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()

    def values(tag):
        return [event.value for event in events.Scalars(tag)]

    def float32(numbers):
        return [float(numpy.float32(number)) for number in numbers]

    extra = measurement["extra"]
    for tag, name in (("train/loss", "loss"), ("train/grad_norm", "grad_norm"),
                      ("train/learning_rate", "learning_rate"), ("train/step_seconds", "step_seconds")):
        checks.equal(f"TensorBoard: {tag}", values(tag), float32(extra[name]))
    checks.equal("TensorBoard: steps", [event.step for event in events.Scalars("train/loss")], range(1, STEPS + 1))
    checks.equal("TensorBoard: system/memory_percent", values("system/memory_percent"),
                 float32(series["processes"][0]["memory_percent"]))
    for name, value in measurement["measured"].items():
        checks.equal(f"TensorBoard: measured/{name}", values(f"measured/{name}"), float32([value]))

    def plugin(tag):
        content = events.SummaryMetadata(tag).plugin_data.content
        return plugin_data_pb2.HParamsPluginData.FromString(content)

    start = plugin("_hparams_/session_start_info").session_start_info
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    expected = {name: "None" if value is None else json.dumps(value, separators=(",", ":")) if isinstance(value, list)
                else value for name, value in measurement["inputs"].items()}
    checks.equal("TensorBoard: hparams are the inputs", sorted(found.items()), sorted(expected.items()))
    checks.equal("TensorBoard: hparams' end", [plugin("_hparams_/session_end_info").session_end_info.status], [1])
    metrics = [info.name.tag for info in plugin("_hparams_/experiment").experiment.metric_infos]
    checks.equal("TensorBoard: hparams' metrics", sorted(metrics),
                 sorted("measured/" + name for name in measurement["measured"]))


def check_mlflow(checks, address, measurement, series):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(address)
    experiment = client.get_experiment_by_name(measurement["experiment"])
    [run] = client.search_runs([experiment.experiment_id])
    checks.equal("MLflow: the run's end", [run.info.status], ["FINISHED"])
    checks.equal("MLflow: tags", [run.data.tags["sftbench.key"], run.data.tags["sftbench.entity"]],
                 [measurement["key"], measurement["entity_id"]])
    checks.equal("MLflow: as many parameters as inputs", [len(run.data.params)], [len(measurement["inputs"])])
    checks.equal("MLflow: a parameter", [run.data.params["model_name"]], ["smollm2-135m"])

    def values(key):
        history = client.get_metric_history(run.info.run_id, key)
        return [metric.value for metric in sorted(history, key=lambda metric: metric.step)]

    for key in ("loss", "grad_norm", "learning_rate", "step_seconds"):
        checks.equal(f"MLflow: {key}", values(key), measurement["extra"][key])
    checks.equal("MLflow: system/memory_percent", values("system/memory_percent"),
                 series["processes"][0]["memory_percent"])
    checks.equal("MLflow: measured properties",
                 sorted((name, run.data.metrics[name]) for name in measurement["measured"]),
                 sorted((name, float(value)) for name, value in measurement["measured"].items()))


def check_json_lines(checks, folder, measurement, series):
    import pandas

    lines = pandas.read_json(folder / "log.jsonl", lines=True, precise_float=True)
    table = pandas.json_normalize(lines["data"].tolist()).assign(name=lines["name"])

    def values(name):
        return table.loc[table["name"] == name, "value"].tolist()

    for name, key in (("training_loss", "loss"), ("grad_norm", "grad_norm"), ("step_seconds", "step_seconds")):
        checks.equal(f"pandas: {name}", values(name), measurement["extra"][key])
    checks.equal("pandas: system/host_memory_percent", values("system/host_memory_percent"),
                 series["processes"][0]["host_memory_percent"])
    checks.equal("pandas: measured/train_runtime", values("measured/train_runtime"),
                 [measurement["measured"]["train_runtime"]])
    processes = pandas.DataFrame({key: column for key, column in series["processes"][0].items() if key not in ("gpus", "node")})
    checks.equal("pandas: the series has a row for each sample", [len(processes)], [measurement["extra"]["series"]["samples"]])


def check_series(checks, measurement, series):
    process = series["processes"][0]
    mean = sum(process["memory_percent"]) / len(process["memory_percent"])
    checks.equal("series: cpu_memory_utilization follows from it",
                 [round(mean, 9)], [round(measurement["measured"]["cpu_memory_utilization"], 9)])
    whole = 100 * (process["cpu_seconds"][-1] - process["cpu_seconds"][0]) / (process["time_s"][-1] - process["time_s"][0])
    checks.equal("series: cpu_compute_utilization follows from it",
                 [round(whole, 6)], [round(measurement["measured"]["cpu_compute_utilization"], 6)])


def check_aim_info(checks, folder, measurement, series, reader):
    if reader is None:
        print("left out: ado's reader, --ado metrics_tracker.py")
        return
    # What that file imports for its own samplers is not needed to read.
    for name in ("aim", "aim.ext", "aim.ext.resource", "aim.ext.resource.stat", "psutil"):
        sys.modules[name] = types.ModuleType(name)
    stat = sys.modules["aim.ext.resource.stat"]
    sys.modules["aim"].ext, sys.modules["aim.ext"].resource = sys.modules["aim.ext"], sys.modules["aim.ext.resource"]
    sys.modules["aim.ext.resource"].stat = stat
    stat.Stat = stat.StatDict = object
    spec = importlib.util.spec_from_file_location("metrics_tracker", reader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["metrics_tracker"] = module
    spec.loader.exec_module(module)
    read = module.Metrics.from_aim_info_dict(json.loads((folder / "aim.json").read_text()), num_gpus=0)
    found = read.to_scalar_observations(None)
    measured = measurement["measured"]
    for name in ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_tokens_per_second",
                 "train_tokens_per_gpu_per_second"):
        checks.equal(f"ado: {name}", [found[name]], [measured[name]])
    checks.equal("ado: dataset_tokens_per_second", [round(found["dataset_tokens_per_second"], 6)],
                 [round(measured["dataset_tokens_per_second"], 6)])
    checks.equal("ado: training_steps", [found["training_steps"]], [STEPS])
    percents = cpu_percents(series)
    checks.equal("ado: cpu_compute_utilization", [round(found["cpu_compute_utilization"], 6)],
                 [round(sum(percents) / len(percents), 6)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sftbench", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path)
    parser.add_argument("--ado", type=pathlib.Path)
    arguments = parser.parse_args()
    enter_environment(arguments.venv)
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        server, address = start_mlflow(folder)
        try:
            measurement = measure(arguments.sftbench.resolve(), folder, address)
            checks.equal("no warning of a tracker",
                         [text for text in measurement["extra"]["warnings"] if text.startswith("tracker")], [])
            series = series_of(folder, measurement)
            check_tensorboard(checks, folder, measurement, series)
            check_mlflow(checks, address, measurement, series)
            check_json_lines(checks, folder, measurement, series)
            check_series(checks, measurement, series)
            check_aim_info(checks, folder, measurement, series, arguments.ado)
        finally:
            os.killpg(server.pid, 15)
            server.wait()
    sys.exit(1 if checks.failures else 0)


if __name__ == "__main__":
    main()
