"""https: a server that can be trusted is spoken to, another one is not."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from raftsched.client.errors import ClientError
from raftsched.client.http import Client
from raftsched.client.servers import parse_servers


class _Quiet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # who does not trust it hangs up


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Its address, and the certificate that says who it is."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "certificate", directory / "key"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _Server(("127.0.0.1", 0), _Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}", certificate
        server.shutdown()
        thread.join()


def test_a_trusted_server_is_spoken_to(served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    url, certificate = served
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert Client(parse_servers(f"{url}/prefix")).get("/v1/x") == {"path": "/prefix/v1/x"}


def test_others_get_no_request(served: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    url, certificate = served
    with pytest.raises(ClientError, match="certificate verify failed") as failed:
        Client(parse_servers(url)).get("/v1/x")
    assert failed.value.code == "unreachable"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ClientError) as failed:  # it is somebody, but not who was asked for
        Client(parse_servers(url.replace("127.0.0.1", "localhost"))).get("/v1/x")
    assert failed.value.code == "unreachable"
