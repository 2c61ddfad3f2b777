#!/usr/bin/env python3
"""What all four trackers cost a step: alternate_trackers (alternate.cpp) beside a stand-in of a tracking server.

    python3 bench/trackers/overhead.py build/bench/bin/alternate_trackers [--length 64] [--block-seconds 4] [--groups 20]

The server answers and keeps nothing. It runs on the same processors: a real one runs on another machine.
"""
import http.server
import pathlib
import subprocess
import sys
import threading


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


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    program = str(pathlib.Path(sys.argv[1]).resolve())
    status = subprocess.run([program, address, *sys.argv[2:]]).returncode
    print(f"the server had {Server.requests} requests")
    sys.exit(status)


if __name__ == "__main__":
    main()
