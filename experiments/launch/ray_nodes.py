"""The nodes of a cell that takes several, for `sftbench sweep --on ray`: it travels with the job.

  ray_nodes.py NEED PROGRAM WORD...     reserves the nodes of NEED, as {"nodes": 2, "bundle": {"CPU": 16, "GPU": 8}}, and
                                        follows PROGRAM WORD... --hosts A,B on the first of them. The job's command.
  ray_nodes.py ssh ... HOST COMMAND     runs COMMAND on a reserved node. Stands in place of ssh there (SFTBENCH_SSH).

A node that is lost ends the job with status 1, for `sweep --on ray` to start again. Status 6: no such nodes.
"""
import json
import os
import secrets
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge

LOST, REMAINS, INTERRUPTED, NO_HOST = 1, 6, 130, 255
CONNECT_S = 15      # also for a stranger to show the key
SAY_S = 60          # between two lines about nodes that do not come
PATIENCE_S = 900    # with a cluster that lacks them: Ray's own with a job of one node
STOP_S = 2.5        # Ray kills a job 3 s after it has asked it to end
LEAVE_S = 20        # for a sweep that has lost a node
HOLD_S = 60         # for this job to end, so that a cell is measured again rather than failed with its node
NODES = "RAY_NODES_OF_CELL"


def wait_at_most(connection, seconds):
    with socket.socket(fileno=os.dup(connection.fileno())) as its:
        its.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def keep_alive(connection):
    """So that a silent end of the other host is noticed within a minute."""
    wait_at_most(connection, 0)
    with socket.socket(fileno=os.dup(connection.fileno())) as its:
        its.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
            its.setsockopt(socket.IPPROTO_TCP, option, 15)
        its.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


class Node:
    """An actor on each node, with the devices that Ray gives it. Runs what those with the key ask for."""

    def __init__(self, key):
        import ray
        self.key = key
        self.address = ray.util.get_node_ip_address()
        self.listener = Listener((self.address, 0), backlog=64)
        os.environ["SFTBENCH_SSH"] = f"{sys.executable} {os.path.abspath('ray_nodes.py')} ssh"
        threading.Thread(target=self.listen, daemon=True).start()

    def place(self):
        return self.address, self.listener.address[1]

    def live(self):
        threading.Event().wait()

    def listen(self):
        while True:
            connection = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            wait_at_most(connection, CONNECT_S)
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            keep_alive(connection)
            command, environment, signal_at_end = json.loads(connection.recv_bytes())
        except Exception:  # a stranger
            connection.close()
            return
        child = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, env={**os.environ, **environment}, start_new_session=True)
        threading.Thread(target=self.feed, args=(connection, child, signal_at_end), daemon=True).start()
        try:
            while said := os.read(child.stderr.fileno(), 65536):
                connection.send_bytes(b"e" + said)
            connection.send_bytes(b"s%d" % child.wait())
        except OSError:
            child.wait()

    @staticmethod
    def feed(connection, child, signal_at_end):
        """Until the other side's input, or the other side itself, ends."""
        try:
            while text := connection.recv_bytes():
                os.write(child.stdin.fileno(), text)
        except (EOFError, OSError):
            pass
        child.stdin.close()
        if signal_at_end:
            child.send_signal(signal_at_end)


class Remote:
    """A command on a node; `poll` passes on what it says, and has its status at the end."""

    def __init__(self, key, place, command, environment=None, signal_at_end=0):
        def too_long(*_):
            raise TimeoutError(f"no answer in {CONNECT_S} s")

        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(CONNECT_S)
        self.connection = Client(tuple(place), authkey=key)
        signal.alarm(0)
        keep_alive(self.connection)
        self.connection.send_bytes(json.dumps([command, environment or {}, signal_at_end]).encode())

    def poll(self, timeout_s=None):
        """None: it goes on. EOFError, OSError: the node is lost."""
        if not self.connection.poll(timeout_s):
            return None
        frame = self.connection.recv_bytes()
        if frame[:1] == b"s":
            status = int(frame[1:])
            return status if status >= 0 else 128 - status
        sys.stderr.buffer.write(frame[1:])
        sys.stderr.buffer.flush()
        return None

    def end(self):
        self.connection.send_bytes(b"")


def ssh(host, command):
    known = json.loads(os.environ[NODES])
    try:
        remote = Remote(bytes.fromhex(known["key"]), (host, known["ports"][host]), command)
    except Exception as error:
        print(error, file=sys.stderr)
        return NO_HOST

    def pass_input():
        while text := os.read(0, 65536):
            remote.connection.send_bytes(text)
        remote.end()

    threading.Thread(target=pass_input, daemon=True).start()
    try:
        while (status := remote.poll()) is None:
            pass
        return status
    except (EOFError, OSError):
        time.sleep(HOLD_S)
        return NO_HOST


def shown(bundle):
    return ", ".join(f"{number:g} {name}" for name, number in bundle.items())


def reserve(ray, count, bundle):
    """The placement group, or None when the cluster has had no such nodes for too long."""
    group = ray.util.placement_group([bundle] * count, strategy="STRICT_SPREAD")
    begin_s, said = time.monotonic(), None
    while not group.wait(5 if said is None else SAY_S):
        there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        fit = sum(all(node.get(name, 0) >= number for name, number in bundle.items()) for node in there)
        text = (f"waiting for {count} nodes with {shown(bundle)} each: {fit} of the cluster's {len(there)} have that" +
                (", and others use them" if fit >= count else ""))
        if text != said:
            print(f"sftbench: {text}", file=sys.stderr)
        said = text
        if fit >= count:
            begin_s = time.monotonic()
        elif time.monotonic() - begin_s > PATIENCE_S:
            return None
    return group


def follow(ray, need, words):
    """The sweep's status."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    group = reserve(ray, need["nodes"], need["bundle"])
    if group is None:
        return REMAINS
    rest = dict(need["bundle"])
    devices = {"num_cpus": rest.pop("CPU"), "num_gpus": rest.pop("GPU", 0), "resources": rest, "max_concurrency": 2}
    key = secrets.token_bytes(32)
    nodes = [ray.remote(Node).options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, i), **devices)
             .remote(key) for i in range(need["nodes"])]
    places = ray.get([node.place.remote() for node in nodes])
    lives = {node.live.remote(): place[0] for node, place in zip(nodes, places)}
    hosts = [host for host, _ in places]
    environment = {**need["environment"], NODES: json.dumps({"key": key.hex(), "ports": dict(places)})}
    command = shlex.join([words[0], "tether", *words, "--hosts", ",".join(hosts)])
    remote = Remote(key, places[0], f"exec {command} >&2", environment, signal.SIGTERM)
    ends_s, status_then = float("inf"), None

    def end(status, within_s):
        nonlocal ends_s, status_then
        ends_s = min(ends_s, time.monotonic() + within_s)
        if status_then is None:
            status_then = status
            remote.end()

    signal.signal(signal.SIGTERM, lambda *_: end(INTERRUPTED, STOP_S))
    while time.monotonic() < ends_s:
        status = remote.poll(0.5)
        if status is not None:
            return status if status_then is None else status_then
        lost, _ = ray.wait(list(lives), timeout=0)
        if lost and status_then is None:
            print(f"sftbench: Ray has lost the node {lives[lost[0]]}", file=sys.stderr)
            end(LOST, LEAVE_S)
    return status_then


def main():
    if sys.argv[1] == "ssh":
        return ssh(*sys.argv[-2:])
    import ray
    sys.stdout = open(os.devnull, "w")  # where Ray prints the logs of raylets that have died
    ray.init(logging_level="WARNING", log_to_driver=False)
    try:
        return follow(ray, json.loads(sys.argv[1]), sys.argv[2:])
    except (EOFError, OSError, ray.exceptions.RayError) as error:
        print(f"sftbench: a node of the cell was lost: {str(error) or 'its connection ended'}", file=sys.stderr)
        return LOST


if __name__ == "__main__":
    sys.exit(main())
