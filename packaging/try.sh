#!/usr/bin/env bash
# Installs each package of FOLDER in a bare Debian 12 (debootstrap, as root), where it measures while the clone is hidden.
#   packaging/try.sh FOLDER
# Prints what each took. The wheels' torch comes from PyPI.
set -euo pipefail
folder=$(realpath "$1")
tree=$(cd "$(dirname "$0")/.." && pwd)
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" >"$folder/debootstrap.log"
cp -r /etc/apt/. "$root/etc/apt/"  # the same mirrors
for file in pip.conf resolv.conf ssl/certs/ca-certificates.crt; do [ ! -e /etc/$file ] || cp /etc/$file "$root/etc/$file"; done
mkdir "$root/packages" && cp "$folder"/sftbench*.{deb,tar.gz,whl} "$root/packages/"
env | grep -iE '^(PIP_(CERT|INDEX|EXTRA)|(https?|no)_proxy=)' | sed 's/^/export /' >"$root/packages/environment" || true
cat >"$root/packages/try" <<'END'
. /packages/environment
export DEBIAN_FRONTEND=noninteractive
now() { date +%s.%N; }
since() { python3 -c "print(f'{$(now) - $1:6.1f} s  $2')" 2>/dev/null || echo "$(($(date +%s) - ${1%.*})) s  $2"; }
measure() {
  "$1" run --experiment finetune_full_benchmark-v1.0.0 --set model_name=smollm2-135m --set number_gpus=0 --set batch_size=1 \
    --set model_max_length=256 --set max_steps=5 --weights random --no-progress --output "$(mktemp -d)" | sed -n 3,4p
}
predict() {
  "$1" predict --experiment finetune_lora_benchmark-v1.0.0 --set model_name=llama3.1-8b --set number_gpus=1 \
    --set gpu_model=NVIDIA-H100-80GB-HBM3 --set batch_size=4 --set model_max_length=2048 | sed -n 1,3p
}

begin=$(now)
apt-get update -qq && apt-get install -y -qq --no-install-recommends /packages/sftbench_*.deb >/dev/null
since "$begin" "the .deb is installed"
measure sftbench
since "$begin" "it has measured"
predict sftbench
apt-get remove -y -qq sftbench >/dev/null
test ! -e /usr/bin/sftbench && test ! -e /usr/share/sftbench
mkdir /opt/here && tar -C /opt/here --strip-components=1 -xf /packages/sftbench-*.tar.gz
measure /opt/here/bin/sftbench
echo "the .tar.gz has measured"

apt-get autoremove -y -qq >/dev/null  # libtorch and the libraries that a wheel must bring
apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
python3 -m venv /opt/venv
begin=$(now)
/opt/venv/bin/pip install --quiet --disable-pip-version-check --find-links /packages sftbench
since "$begin" "the wheel is installed"
predict /opt/venv/bin/sftbench
since "$begin" "it has predicted"
measure /opt/venv/bin/sftbench 2>&1 || echo "without the engine it says so"
begin=$(now)
/opt/venv/bin/pip install --quiet --disable-pip-version-check --find-links /packages "sftbench[train]"
since "$begin" "sftbench[train] is installed"
measure /opt/venv/bin/sftbench
since "$begin" "it has measured"
END
unshare --mount bash -euc '
  mount -t tmpfs none "$2"
  mount --rbind /proc "$1/proc" && mount --rbind /dev "$1/dev"
  exec chroot "$1" bash -euo pipefail /packages/try' - "$root" "$tree"
