"""Texts that shells, sbatch, Kubernetes and Ray act on, in all that reaches workers and ranks; and secrets.

Stand-ins execute what the real ones would: the batch script, the entrypoint, the pod's command, the line for the remote shell.
Each text arrives as it was, or is refused, and nothing else runs. No secret is found where it was not put.
"""

import base64
import collections
import contextlib
import http.server
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading
import zipfile
import zlib

import yaml

from simulated import SPACE, Lost

HEADS = ["", "a ", "-", "'", '"', "\\", "\n", "\r\n", "X=1", "# ", "%a}", "~ * ", "${HOME}", "$(FREE)", "$$", "\u00e9\u2028",
         "END_OF_BATCH_SCRIPT\n", "\n#SBATCH --wrap=", "--\n---\n"]
TAILS = ["touch HACKED", "$(touch HACKED)", "`touch HACKED`", ";touch HACKED;", "|touch HACKED&", "\ntouch HACKED\n", ">HACKED",
         "HACKED=1", "&& touch HACKED #", "'\ntouch HACKED\n'", '"\ntouch HACKED\n"', "'$(touch HACKED)'",
         "\nEND_OF_BATCH_SCRIPT\ntouch HACKED\n", "\nEND_OF_BATCH_SCRIPT_\ntouch HACKED", "$'\\n'touch HACKED",
         "a[$(touch HACKED)]", "{a,b}*~!!", "\\", '\t# "HACKED', "${IFS}touch${IFS}HACKED", "$HOME$(FREE)$$(FREE)"]
# In the place of the program: writes down its words, its variables and what it is told, and says that cells are open.
WORKER = """printf '%s\\0' "$0" "$@" "$PWD" >>"$SEEN.words"
env -0 >>"$SEEN.variables"
[ "$1" != node ] || head -n 1 >>"$SEEN.input"
echo measure,"""
NOTE = """printf '%s\\0' "$@" >>"$SEEN.words"\n"""
RANKS_ARE_WORKERS = 'ln -f "$PROGRAM.worker" "$PROGRAM"\n'
STAND_INS = {
    "sbatch": 'script=$(mktemp -p "$HOME") && cat >"$script" && SLURM_ARRAY_TASK_ID=0 bash "$script" >&2; echo 7',
    "scontrol": ":",
    "srun": RANKS_ARE_WORKERS + 'while case $1 in --*) ;; *) false ;; esac; do shift; done; exec "$@"',
    "mpirun": RANKS_ARE_WORKERS + 'while [ "$1" != "$PROGRAM" ]; do shift; done; exec "$@"',
    "ssh": RANKS_ARE_WORKERS + 'for line; do :; done; exec sh -c "$line"',
}
# What may stand together, and around a text; True: one line.
TEMPLATE, COLUMN, FOLDER = ("", "{{x}}", False), ("", "", True), ("/data/", "", False)
OPTIONS = [{"--text-field": COLUMN, "--response-template": TEMPLATE}, {"--template": TEMPLATE, "--output-dir": FOLDER},
           {"--conversation-column": COLUMN, "--chat-template": TEMPLATE},
           {"--input-column": COLUMN, "--output-column": COLUMN}, {"--output-dir": FOLDER, "--save-model-dir": FOLDER}]


def text(one_line=False):
    words = random.choice(HEADS) + random.choice(TAILS)
    return re.sub(r"[\r\n\t\\]", "", words) or "a" if one_line and random.random() > 0.02 else words


class Server(http.server.ThreadingHTTPServer):
    """The head of a Ray cluster, and a tracking server."""

    def __init__(self, run):
        super().__init__(("127.0.0.1", 0), Answers)
        self.run, self.jobs, self.bodies, self.credentials = run, set(), [], []
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=[0.01], daemon=True).start()


class Answers(http.server.BaseHTTPRequestHandler):
    def answer(self, code=200, /, **fields):
        body = json.dumps(fields).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/api/version":
            return self.answer(ray_version="2.60.0")
        if self.path.startswith("/api/packages/") \
                or (self.path.startswith("/api/jobs/") and self.path.split("/")[3] not in self.server.jobs):
            return self.answer(404)
        return self.answer(status="SUCCEEDED", driver_exit_code=0, logs="", experiment={"experiment_id": "1"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(body)) as package:
            self.server.bodies += [package.read(name) for name in package.namelist()]
        self.server.bodies.append(body)
        self.server.credentials.append(self.headers["Authorization"])
        if self.path == "/api/jobs/":
            job = json.loads(body)
            self.server.jobs.add(job["submission_id"])
            variables = {name: os.path.expandvars(value) for name, value in job["runtime_env"]["env_vars"].items()}
            self.server.run(["sh", "-c", job["entrypoint"]], **variables)
        self.answer(experiment_id="1", run={"info": {"run_id": "2", "experiment_id": "1"}})

    do_PUT = do_POST

    def log_message(self, *_):
        pass


class Site:
    """A machine with the stand-ins, and with texts as names of its folders."""

    def __init__(self, program, work, named=text):
        self.folder = work / "site"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.texts, self.others = [named(True), named()], []  # that reach a worker, and that do not
        self.here, self.program = self.folder / self.texts[0], self.folder / self.texts[1] / "sftbench"
        self.seen = self.folder / "seen"
        for folder in {self.folder / "bin", self.here, self.program.parent}:
            folder.mkdir(parents=True, exist_ok=True)
        self.worker = f"{self.program}.worker"
        scripts = {self.folder / "bin" / name: NOTE + script for name, script in STAND_INS.items()}
        for file, script in {**scripts, pathlib.Path(self.worker): WORKER}.items():
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o700)
        os.link(program, self.program)
        self.server = Server(self.run)

    def run(self, words, **variables):
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder), "SEEN": str(self.seen),
                       "PROGRAM": str(self.program), "SFTBENCH_HOME": str(pathlib.Path(__file__).parents[2]), **variables}
        return subprocess.run(words, cwd=self.here, env=environment, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def read(self, *kinds):
        files = [pathlib.Path(f"{self.seen}.{kind}") for kind in kinds]
        return "\0".join(file.read_bytes().decode() for file in files if file.exists())

    def arrived(self):
        texts = [self.read("words", "variables")]
        for line in filter(None, self.read("input").split("\n")):
            task = json.loads(line)
            texts += task["words"] + list(task["environment"].values()) + [task["directory"]]
        return "\0".join(texts)

    def apply(self, manifests):
        """As Kubernetes: values of variables in place of $(NAME), and $ in place of $$."""
        def expanded(words, variables):
            return re.sub(r"\$\$|\$\(([^)]*)\)", lambda m: variables.get(m[1], m[0]) if m[1] is not None else "$", words)

        for manifest in yaml.safe_load_all(manifests):
            spec = manifest.get("spec", {})
            for jobs in spec.get("replicatedJobs", []):
                spec = jobs["template"]["spec"]
            for container in spec.get("template", {"spec": {"containers": []}})["spec"]["containers"]:
                variables = {}
                for one in container["env"]:
                    variables[one["name"]] = expanded(one.get("value", ""), variables)
                words = [expanded(word, variables) for word in container["command"] + container["args"]]
                self.run(words, JOB_COMPLETION_INDEX="0", **variables)


def sweep(site, program, engine, words, name="space", **variables):
    """A cell of one node or two, for workers of an engine."""
    nodes = 1 if engine == "ray" else random.choice([1, 2])
    space = SPACE.format(end=65, batch_sizes=[16]).replace("[2]", f"[{8 * nodes}]")
    (site.here / f"{name}.yaml").write_text(
        space + f"- {{identifier: number_nodes, propertyDomain: {{values: [{nodes}]}}}}\n")
    ended = site.run([program, "sweep", f"./{name}.yaml", "--backend", "simulate", "--program", site.worker, "--on",
                      *engine.split(), *words], **variables)
    if ended.returncode == 0 and engine == "slurm":
        site.run(["bash", "-c", ended.stdout.decode()])
    if ended.returncode == 0 and engine == "kubernetes":
        site.apply(ended.stdout.decode())
    return ended


def sweep_with_texts(site, program, words):
    engine = random.choice(["slurm", "slurm --submit", "kubernetes", "ray"])
    kind = engine.split()[0]
    name, folder, one, two, other = text(True), text(one_line=kind == "slurm"), text(), text(), text(True)
    place, own = {"slurm": ("./", ["--slurm", f"comment={other}"]),
                  "kubernetes": ("/data/", ["--kubernetes", f"image={other}"]),
                  "ray": ("/shared/", ["--ray-address", f"http://{site.server.address}"])}[kind]
    site.texts += [folder, one, two] + [name] * (kind != "kubernetes")  # a key of a ConfigMap is of letters
    site.others += [other] * (kind != "ray")
    words += [*own, "-o", place + folder, "--env", f"FREE={one}", "--env", f"HF_HOME={two}"]
    return engine, sweep(site, program, engine, words, "space" if kind == "kubernetes" else name)


def launch(site, launcher, words, **variables):
    words = [site.program, "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--set", "model_name=smollm2-135m", "--set",
             "model_max_length=64", "--set", "batch_size=2", "--weights", "random", "--launcher", launcher, *words]
    words += ["--set", "number_gpus=2", "--set", "number_nodes=2", "--set", "gpu_model=NVIDIA-H100-PCIe"] \
        if launcher == "srun" else ["--set", "number_gpus=0", "--hosts", "127.0.0.1"]
    return site.run(words, SLURM_JOB_ID="5", SLURM_JOB_NUM_NODES="2", **variables)


def launch_with_texts(site, words):
    launcher = random.choice(["srun", "mpirun", "ssh"])
    home, file = text(), text()
    site.texts += [home, file]
    return launcher, launch(site, launcher, words, HF_HOME=home, NCCL_DEBUG_FILE=file)


def try_texts(program, work, enough):
    counts = collections.Counter()
    program = shutil.copy(program, work)
    while not enough(counts.total()):
        site, words = Site(program, work), []
        for option, (before, behind, one_line) in random.choice(OPTIONS).items():
            site.texts.append(before + text(one_line) + behind)
            words.append(f"{option}={site.texts[-1]}")
        way, ended = launch_with_texts(site, words) if random.random() < 0.4 else sweep_with_texts(site, program, words)
        site.close()
        said = f"{way}: {site.texts + site.others}, status {ended.returncode}:\n{ended.stderr.decode()}"
        if any(file.name == "HACKED" for file in site.folder.rglob("*")):
            raise Lost(f"something was run, {said}")
        if ended.returncode not in (0, 2) or (ended.returncode == 2 and site.read("variables")):
            raise Lost(said)
        missing = [] if ended.returncode else [one for one in site.texts if one not in site.arrived()]
        if missing:
            raise Lost(f"{missing} did not arrive, {said}")
        counts["refused" if ended.returncode else f"by {way}"] += len(site.texts + site.others)
    return counts


def keep_as_before(results, tracker):
    """As versions did that took no secrets out of commands, and had no checksums."""
    for file in results.rglob("*.json"):
        result = json.loads(file.read_text())
        result["command"] += f" --track '{tracker}'"
        file.write_text(json.dumps({key: value for key, value in result.items() if key not in ("key", "checksum")}))
        yield file


def try_secrets(program, work, enough):
    """A secret in addresses, headers, the environment, an arguments file and older results."""
    counts = collections.Counter()
    program = shutil.copy(program, work)
    while not enough(counts.total()):
        site, secret = Site(program, work, named=lambda _=False: "plain"), f"{random.getrandbits(160):040x}"
        tracker = f"mlflow=http://me:{secret}@{site.server.address}?token={secret}"
        tracked = ["--track", tracker]
        said = {}

        def tell(what, ended, statuses=(0,)):
            said[what] = ended.stdout + ended.stderr
            if ended.returncode not in statuses:
                raise Lost(f"{what}: status {ended.returncode}:\n{ended.stderr.decode()}")

        variables = {name: secret for name in ["HF_TOKEN", "RAY_AUTH_TOKEN", "MLFLOW_TRACKING_PASSWORD"]}
        for launcher in ["srun", "mpirun", "ssh"]:
            site.program.unlink()
            os.link(program, site.program)
            tell(launcher, launch(site, launcher, tracked, **variables))
        arguments = site.here / "arguments.yaml"
        arguments.write_text(f"hub_token: {secret}\n")
        tell("local", sweep(site, program, "local", tracked, **variables))
        for engine, more in {"slurm": [], "slurm --submit": [], "kubernetes": ["-o", "/data/r"],
                             "ray": ["-o", "/r", "--ray-address", f"http://me:{secret}@{site.server.address}"]}.items():
            for words in [tracked, ["--env", f"A_TOKEN={secret}"], ["--arguments", arguments], ["--env", "HF_TOKEN"], []]:
                tell(f"{engine} {words}", sweep(site, program, engine, more + words, **variables), (0, 2))
        cells = [program, "sweep", "./space.yaml", "--backend", "simulate", *tracked]
        tell("sweep", site.run(cells, **variables))
        planted = [arguments, *keep_as_before(site.here / "results", tracker)]
        report = [program, "report", "results", "--include-simulated"]
        for layout in ["table", "json", "jsonl", "csv", "csv --wide", "md", "html", "json --compare results"]:
            tell(layout, site.run([*report, "--format", *layout.split()]))
        said["data of the page"] = zlib.decompress(base64.b64decode(re.search(rb'id="data">\s*([\w+/=]+)', said["html"])[1]))
        site.server.credentials.clear()
        tell("workers", site.run([*cells, "--on", "local", "--repeats", "2"], **variables))
        if set(site.server.credentials) != {"Basic " + base64.b64encode(f"me:{secret}".encode()).decode()}:
            raise Lost(f"a tracker hears from workers with {site.server.credentials}")
        site.close()
        for file in [*planted, *(pathlib.Path(f"{site.seen}.{kind}") for kind in ["variables", "input"])]:
            file.unlink()
        said |= {str(file): file.read_bytes() for file in site.folder.rglob("*") if file.is_file()}
        said |= {f"request {i}": body for i, body in enumerate(site.server.bodies)}
        found = [what for what, content in said.items() if secret.encode() in content]
        if found:
            raise Lost(f"a secret stands in {found}")
        counts["places looked at"] += len(said)
    return counts
