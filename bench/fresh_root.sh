#!/usr/bin/env bash
# The README's two commands as a stranger meets them: in a Debian 12 with nothing installed (debootstrap, as root), in a
# clone of HEAD, first with an empty compiler cache, then in a new clone at the same path with that cache, which knows units of
# several files by the path of the clone.
#   bench/fresh_root.sh FOLDER [cold|warm...]
# FOLDER gets the logs, of each clone ninja's, which says what each compilation took, and the cache, so that "warm" may be another
# day's. Prints what each command took, and on which processor.
set -euo pipefail
logs=$(mkdir -p "$1" && realpath "$1")
shift
[ $# -gt 0 ] || set -- cold warm
tree=$(cd "$(dirname "$0")/.." && pwd)
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase --include=ca-certificates,git bookworm "$root" >"$logs/debootstrap.log"
cp -r /etc/apt/. "$root/etc/apt/"  # the same mirrors
for file in pip.conf resolv.conf ssl/certs/ca-certificates.crt; do [ ! -e /etc/$file ] || cp /etc/$file "$root/etc/$file"; done
env | grep -iE '^(PIP_(CERT|INDEX|EXTRA)|(https?|no)_proxy=)' | sed 's/^/export /' >"$root/environment" || true
git clone --quiet --no-local "$tree" "$root/source"
cat >"$root/try" <<'END'
. /environment
export DEBIAN_FRONTEND=noninteractive HOME=/root CCACHE_DIR=/logs/ccache
for clone; do
  [ "$clone" = warm ] || rm -rf "$CCACHE_DIR"
  cd /
  rm -rf /clone
  git clone --quiet /source /clone
  cd /clone
  for command in "experiments/quickstart.sh --no-progress" tests/run.sh; do
    begin=$SECONDS
    status=0
    # shellcheck disable=SC2086
    bash $command >"/logs/$clone-$(basename "${command%% *}").log" 2>&1 || status=$?
    cp build/release/.ninja_log "/logs/$clone.ninja_log"
    printf '%6s s  %s, %s cache, status %s\n' $((SECONDS - begin)) "${command%% *}" "$clone" $status
  done
done
END
sed -n 's/^model name[^:]*: /on /p' /proc/cpuinfo | sort | uniq -c
mkdir "$root/logs"
unshare --mount bash -euc '
  mount --rbind /proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys"
  mount --bind "$2" "$1/logs"
  root=$1
  shift 2
  exec chroot "$root" bash /try "$@"' - "$root" "$logs" "$@"
