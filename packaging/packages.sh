#!/usr/bin/env bash
# Builds the packages of this version into FOLDER (default build/packages): a .deb for Debian 12, and a .tar.gz for machines
# whose packages somebody else installs. With --try each is installed in a bare Debian 12 (debootstrap, as root), where
# it measures once while the clone is hidden.
#   packaging/packages.sh [--try] [FOLDER]
set -euo pipefail
try=no
[ "${1:-}" != --try ] || { try=yes; shift; }
mkdir -p "${1:-build/packages}"
folder=$(realpath "${1:-build/packages}")
cd "$(dirname "$0")/.."
tree=$PWD

bash experiments/setup.sh --cpu sftbench sftbench_parquet
rm -rf build/release/packages
cpack --config build/release/CPackConfig.cmake -G "DEB;TGZ" >build/cpack.log || { cat build/cpack.log >&2; exit 1; }
cp build/release/packages/sftbench* "$folder/"
(cd "$folder" && ls -l sftbench*)
[ $try = yes ] || exit 0

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" >"$folder/debootstrap.log"
cp -r /etc/apt/. "$root/etc/apt/"  # the same mirrors
mkdir "$root/packages" && cp "$folder"/sftbench*.deb "$folder"/sftbench*.tar.gz "$root/packages/"
unshare --mount bash -c '
  set -euo pipefail
  root=$1 tree=$2
  mount -t tmpfs none "$tree"
  mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  exec chroot "$root" bash -euo pipefail -c "
    export DEBIAN_FRONTEND=noninteractive
    measure() {
      \"\$1\" run --experiment finetune_full_benchmark-v1.0.0 --set model_name=smollm2-135m --set number_gpus=0 --set batch_size=1 \
        --set model_max_length=256 --set max_steps=5 --weights random --no-progress --output /tmp/results
    }
    begin=\$SECONDS
    apt-get update -qq && apt-get install -y -qq --no-install-recommends /packages/sftbench_*.deb >/dev/null
    echo \"installed the .deb after \$((SECONDS - begin)) s\"
    measure sftbench | sed -n 3,4p
    echo \"measured after \$((SECONDS - begin)) s\"
    sftbench predict --experiment finetune_lora_benchmark-v1.0.0 --set model_name=llama3.1-8b --set number_gpus=1 \
      --set gpu_model=NVIDIA-H100-80GB-HBM3 --set batch_size=4 --set model_max_length=2048 | sed -n 1,3p
    apt-get remove -y -qq sftbench >/dev/null
    test ! -e /usr/bin/sftbench && test ! -e /usr/share/sftbench
    mkdir /opt/here && tar -C /opt/here --strip-components=1 -xf /packages/sftbench-*.tar.gz
    measure /opt/here/bin/sftbench | sed -n 3,4p
    echo \"and from the .tar.gz\"
  "' - "$root" "$tree"
