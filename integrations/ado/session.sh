#!/usr/bin/env bash
# A session of real ado with the program behind it: a space on a local store, walks, and what kills leave. Every kill is one
# of a process that measures or waits. Nothing may be lost, and nothing measured twice.
# usage: session.sh PROGRAM [VENV]      VENV gets ado and this package, and is made where it is not there
# Status 77: PyPI cannot be reached.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
REAL=$(realpath "${1:?usage: session.sh PROGRAM [VENV]}")
work=$(mktemp -d /tmp/ado.XXXXXX)  # short, because Ray has sockets there
venv=${2:-$work/venv}

fail() {
  echo "session.sh: $1" >&2
  [ ! -e "$work/log" ] || tail -n 40 "$work/log" >&2
  exit 1
}
# Those of Ray whose temporary folder is this one, and the programs among them.
ours() { grep -lsz "^RAY_TMPDIR=$work/ray$" /proc/[0-9]*/environ | cut -d/ -f3 || true; }
programs() { for process in $(ours); do grep -lsz "$work/results" "/proc/$process/cmdline" || true; done; }
end() {
  # shellcheck disable=SC2046
  kill -9 $(ours) 2>/dev/null || true
}
trap 'end; rm -rf "$work"' EXIT

cannot() {
  echo "session.sh: $1"
  exit 77
}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" >/dev/null || cannot "Python has no venv here (Debian: python3-venv)"
pip() { "$venv/bin/pip" "$@" -q >"$work/log" 2>&1; }
pip download --no-deps -d "$work/download" ado-core ado-sfttrainer || cannot "PyPI cannot be reached"
pip install "$here" || fail "cannot install ado-sftbench"
pip install --no-deps --target "$work/sfttrainer" "$work"/download/ado_sfttrainer-* || fail "cannot install ado-sfttrainer"

version=$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("ado-sftbench"))')
[[ "$("$REAL" --version)" == "sftbench $version "* ]] || fail "the package is of version $version, the program is not"

export REAL work HOME=$work/home RAY_USAGE_STATS_ENABLED=0 RAY_raylet_start_wait_time_s=600 SFTBENCH_PROGRAM=$work/sftbench
unset XDG_CONFIG_HOME XDG_DATA_HOME RAY_ADDRESS
mkdir -p "$HOME" "$work/ray"
export PATH=$venv/bin:$PATH
cd "$work"

# The program, which writes down what it measures. The line of `plan` names the measurement that something happens to.
cat >sftbench <<'END'
#!/usr/bin/env bash
[[ "$1" == sweep && " $* " != *" --dry-run "* ]] || exec "$REAL" "$@"
echo "$*" >>"$work/started"
read -r number what <"$work/plan"
[ "$number" = "$(wc -l <"$work/started")" ] || exec "$REAL" "$@"
if [ "$what" = ado-behind ]; then
  "$REAL" "$@"
  kill -9 "$(<"$work/ado")"
  exec sleep 600
fi
{
  until compgen -G "$work/results/*/*.growing.log" >/dev/null; do kill -0 $$ || exit; done
  if [ "$what" = program ]; then kill -9 $$; else kill -9 "$(<"$work/ado")"; fi
} >/dev/null 2>&1 &
exec "$REAL" "$@"
END
chmod +x sftbench
: >started

cat >space.yaml <<'END'
experiments:
  - experimentIdentifier: finetune_full_benchmark-v1.0.0
    actuatorIdentifier: SFTTrainer
    parameterization:
      - {property: {identifier: gradient_accumulation_steps}, value: 1}
      - {property: {identifier: dataset_id}, value: news-chars-512-entries-256}
entitySpace:
  - {identifier: model_name, propertyDomain: {values: [hf-tiny-model-private/tiny-random-BloomForCausalLM]}}
  - {identifier: number_gpus, propertyDomain: {values: [2, 0]}}
  - {identifier: model_max_length, propertyDomain: {values: [256]}}
  - {identifier: batch_size, propertyDomain: {values: [1]}}
  - {identifier: max_steps, propertyDomain: {values: [2, 200]}}
END
cat >actuator.yaml <<END
actuatorIdentifier: SFTTrainer
parameters:
  results: $work/results
  options: [--weights, random]
END
cat >walk.yaml <<'END'
spaces: [latest]
operation:
  module: {operatorName: random_walk, operationType: explore}
  parameters:
    numberEntities: all
    singleMeasurement: true
    samplerConfig: {samplerType: generator, mode: sequential}
END
sed 's/singleMeasurement: true/singleMeasurement: false/' walk.yaml >again.yaml

# What a reader types, with what happens behind it.
say() { printf '\n$ %s\n' "$*"; }
walk() {  # FILE PLAN STATUS WORDS
  say "ado create operation -f $1 --use-latest space --use-latest actuatorconfiguration      # $4"
  echo "$2" >plan
  local status=0
  env RAY_TMPDIR="$work/ray" ado create operation -f "$1" --use-latest space --use-latest actuatorconfiguration >log 2>&1 &
  echo $! >ado
  wait $! 2>/dev/null || status=$?
  [ $status = "$3" ] || fail "the walk ended with status $status; expected $3"
  sed -n 's/^Success! //p' log
  for _ in {1..300}; do [ -n "$(programs)" ] || break; sleep 0.1; done
  [ -z "$(programs)" ] || fail "a program goes on, and nobody waits for it"
  end  # a killed ado leaves agents of Ray behind
}
# What ado's store has of the space, and what the folder of results has.
look() {
  ado show measurements space --use-latest --include matching -o csv --output-file measurements.csv >log 2>&1 ||
    fail "ado shows nothing"
  python3 - "$@" <<'END'
import csv, glob, json, sys
rows = list(csv.DictReader(open("measurements.csv")))
files = [json.load(open(path)) for path in glob.glob("results/*/*.json")]
expected = {name: int(number) for name, number in (word.split("=") for word in sys.argv[1:])}
found = {
    "started": len(open("started").readlines()),
    "files": sum(each["status"] in ("valid", "invalid") for each in files),
    "valid": sum(set(row["is_valid"]) & {"1"} != set() for row in rows),
    "invalid": sum(set(row["is_valid"]) & {"0"} != set() for row in rows),
}
for row in rows:
    print(f"  number_gpus {row['number_gpus']}, max_steps {row['max_steps']}: is_valid {row['is_valid']},"
          f" train_runtime {row['train_runtime'] or '-'}")
print("  " + ", ".join(f"{name} {number}" for name, number in found.items()))
for row in rows:
    theirs = sorted(each["measured"].get("train_runtime", "") for each in files if each["entity_id"] == row["identifier"]
                    and each["status"] == "valid")
    told = row["train_runtime"]
    told = sorted(json.loads(told) if told.startswith("[") else [float(told)] if told else [])
    if not set(told) <= set(theirs):
        sys.exit(f"session.sh: ado says {told} of {row['identifier']}, which was measured as {theirs}")
if found != expected:
    sys.exit(f"session.sh: expected {expected}")
END
}

say "ado get actuators"
SFTBENCH_PROGRAM=/no/such/sftbench ado get actuators >log 2>&1 && fail "a program that is missing is not missed"
grep -q "cannot start /no/such/sftbench: No such file or directory; install sftbench" log ||
  fail "ado does not say what is missing"
ado get actuators 2>log | grep SFTTrainer || fail "ado does not know the actuator"
python3 "$here/compare.py" "$work/sfttrainer" 2>&1 || fail "the experiments are not those of ado-sfttrainer"

say "ado create actuatorconfiguration -f actuator.yaml"
ado create actuatorconfiguration -f actuator.yaml 2>&1 | tee log
say "ado create space -f space.yaml --new-sample-store"
ado create space -f space.yaml --new-sample-store 2>&1 | tee log | grep Success || fail "there is no space"

walk walk.yaml "4 program" 0 "the program is killed within its last measurement"
look started=4 files=3 valid=1 invalid=2
ado show trace operation --use-latest --unroll-entities -o yaml >trace 2>/dev/null
python3 - <<'END'
import yaml
reasons = []
for request in yaml.safe_load(open("trace")):
    for result in request["measurements"]:
        reasons.append(result.get("reason") or (result["metadata"]["reason"] or {}).get("message"))
        values = {each["property"]["identifier"]: each["value"]
                  for each in request["entities"][0]["constitutive_property_values"]}
        print(f"  number_gpus {values['number_gpus']}, max_steps {values['max_steps']}: {request['status']},"
              f" {reasons[-1]}")
expected = ["1 cannot be divided evenly", "1 cannot be divided evenly", None, "ended by SIGKILL"]
if len(reasons) != 4 or any((word or "") not in (reason or "") for word, reason in zip(expected, reasons)):
    raise SystemExit(f"session.sh: expected reasons with {expected}")
END

walk walk.yaml "5 ado-within" 137 "ado is killed within that measurement"
look started=5 files=3 valid=1 invalid=2

walk walk.yaml "6 ado-behind" 137 "ado is killed behind it, before it stores the result"
look started=6 files=4 valid=1 invalid=2

walk walk.yaml "0 nothing" 0 "nothing is measured: what ado lacks is in the folder"
look started=6 files=4 valid=2 invalid=2
say "sftbench report results --format csv --aggregate list"
"$REAL" report results --format csv --aggregate list 2>/dev/null >own.csv
cmp own.csv measurements.csv || fail "ado's table is not the program's"
echo "  is what ado shows, byte for byte"

walk again.yaml "0 nothing" 0 "singleMeasurement: false"
look started=8 files=6 valid=2 invalid=2
echo "session.sh: fine, $SECONDS s"
