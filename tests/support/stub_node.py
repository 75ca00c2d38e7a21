"""Stands in for `raftsched node` where only processes, ports and signals matter: answers /readyz and /v1/cluster.

Once all are there the first living node of the peer list leads; the term is the number of leaders so far, kept in a
file next to the data directories. Nodes named in the file stub-removed there were taken out. `--stub-child` aside, it
leaves a grandchild behind that ignores everything but SIGKILL.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

flags = dict(arg.removeprefix("--").split("=", 1) for arg in sys.argv[1:])
me = flags["id"]
peers = dict(item.split("=", 1) for item in flags["peers"].split(","))
data = Path(flags["data"])
shared = data.parent / "stub-terms.json"

# a job that made a session of its own and ignores TERM
subprocess.Popen(
    [
        sys.executable,
        "-c",
        "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)",
        "stub-grandchild",
    ],
    start_new_session=True,
)


def removed() -> list[str]:
    file = shared.with_name("stub-removed")
    return file.read_text().split() if file.exists() else []


def leader() -> tuple[str | None, int]:
    alive = []
    for node, address in peers.items():
        if node in removed():
            continue
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            alive.append(node)
        except OSError:
            continue
    terms = json.loads(shared.read_text()) if shared.exists() else []
    if not alive or (not terms and len(alive) + len(removed()) < len(peers)):
        return None, 0  # as a cluster forms: once all have answered
    current = terms[-1] if terms and terms[-1] in alive else alive[0]
    if not terms or terms[-1] != current:
        terms.append(current)
        new = shared.with_name(f"{shared.name}-{me}")
        new.write_text(json.dumps(terms))
        new.replace(shared)
    return current, len(terms)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        who, term = (None, 0) if me in removed() else leader()
        nodes = [{"id": node} for node in peers if me in removed() or node not in removed()]
        body = json.dumps({"ready": who is not None, "leader": who, "term": term, "nodes": nodes}).encode()
        self.send_response(503 if who is None and self.path == "/readyz" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


if data.is_dir():  # it was killed: the others, if there are any, have elected another leader, however soon it is back
    leader()
data.mkdir(exist_ok=True)
raft = socket.create_server(("127.0.0.1", int(flags["raft"].rpartition(":")[2])))
raft.listen(100)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
HTTPServer(("127.0.0.1", int(flags["http"].rpartition(":")[2])), Handler).serve_forever()
