# shellcheck shell=bash
# Two hosts on one machine, for tests of several nodes; sourced. As root: each host, n1 and n2, is a
# set of namespaces (network, host name, processes, mounts, shared memory); a third holds the switch
# between them, a bridge with one port for each:
#
#   n1 10.77.0.1 --- port1 [switch] port2 --- 10.77.0.2 n2
#
#   hosts_up            makes them; exit 77 with a reason where that cannot be done
#   on HOST CMD...      runs CMD there
#   bytes_sent HOST     that have left this host through its cable, headers included
#   cut, mend           the switch drops everything / forwards again; the hosts see their cables up
#   slow_link MBIT      the cables pass so many megabit/s each way from here on; 0: all they can
#   hosts_down          ends every process on them; also on exit
#
# What they need of the kernel: CONFIG_VETH, CONFIG_BRIDGE, for slow_link CONFIG_NET_SCH_TBF. No
# netem, which many kernels are built without: a port that leaves the bridge loses every frame.

hosts_folder=
declare -A host_process=()

skip() {
  echo "SKIPPED: $*"
  exit 77
}

enter() { # HOST: the words that go before a command
  echo "nsenter -t ${host_process[$1]} --net --uts --ipc --pid --mount --"
}

# The network alone: processes are called what they are called outside.
wire() {
  local host=$1
  shift
  nsenter -t "${host_process[$host]}" --net -- "$@"
}

on() {
  local host=$1
  shift
  $(enter "$host") "$@"
}

start_host() { # NAME: its first process, which takes all others with it when it ends
  unshare --net --uts --ipc --pid --mount --fork --kill-child \
    bash -c 'mount -t proc proc /proc && mount -t tmpfs shm /dev/shm && hostname "$0" &&
             { [ ! -f "$1/hosts" ] || mount --bind "$1/hosts" /etc/hosts; } &&
             ip link set lo up && : >"$1/$0.up" && exec sleep infinity' "$1" "$hosts_folder" 2>"$hosts_folder/$1.log" &
  local unshare_process=$! wait
  for wait in {1..100}; do
    [ -f "$hosts_folder/$1.up" ] && break
    kill -0 $unshare_process 2>/dev/null || break
    sleep 0.05
  done
  [ -f "$hosts_folder/$1.up" ] || skip "no namespaces can be made here: $(cat "$hosts_folder/$1.log")"
  host_process[$1]=$(pgrep -P $unshare_process)
}

hosts_up() {
  [ "$(id -u)" -eq 0 ] || skip "network namespaces take root"
  local program
  for program in ip unshare nsenter pgrep; do
    command -v $program >/dev/null || skip "there is no $program (Debian: iproute2, util-linux, procps)"
  done
  hosts_folder=$(mktemp -d)
  trap hosts_down EXIT
  printf '127.0.0.1 localhost\n10.77.0.1 n1\n10.77.0.2 n2\n' >"$hosts_folder/hosts"
  local host number=0
  start_host switch
  for host in n1 n2; do
    number=$((number + 1))
    start_host $host
    # The cable: one end becomes the host's card, the other a port of the switch.
    wire switch ip link add port$number type veth peer name card$number ||
      skip "this kernel has no veth"
    wire switch ip link set card$number netns "${host_process[$host]}"
    wire $host ip link set card$number name eth0
    wire $host ip address add 10.77.0.$number/24 dev eth0
    wire $host ip link set eth0 up
    wire switch ip link set port$number up
  done
  wire switch ip link add bridge type bridge || skip "this kernel has no bridge"
  wire switch ip link set port1 master bridge
  wire switch ip link set port2 master bridge
  wire switch ip link set bridge up
}

slow_link() {
  local port
  for port in port1 port2; do
    wire switch tc qdisc delete dev $port root 2>/dev/null || true
    [ "$1" = 0 ] || wire switch tc qdisc add dev $port root tbf rate "$1"mbit burst 128kb latency 500ms ||
      skip "this kernel has no token bucket (CONFIG_NET_SCH_TBF)"
  done
}

cut() { wire switch ip link set port1 nomaster; }
mend() { wire switch ip link set port1 master bridge; }

bytes_sent() {
  wire "$1" ip -s -j link show eth0 | python3 -c 'import json, sys
print(json.load(sys.stdin)[0]["stats64"]["tx"]["bytes"])'
}

hosts_down() {
  local host
  for host in "${!host_process[@]}"; do
    kill -9 "${host_process[$host]}" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  host_process=()
  [ -z "$hosts_folder" ] || rm -rf "$hosts_folder"
  hosts_folder=
}
