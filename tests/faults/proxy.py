"""A proxy before the API server that answers as it is told: with errors, with nonsense, or not at all."""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

_HOP_BY_HOP = ("transfer-encoding", "content-length", "connection", "date")


class Proxy:
    """Hands requests on; `rule` may answer one itself. As a context manager it runs inside the `with` block.

    `rule(method, path)` returns None to hand the request on, (status, headers, text) to answer it, or "cut" to end
    the connection without a word. With the method STREAM it is asked for each part of a watch.
    """

    def __init__(self, api):
        self.api = api
        self.rule = None
        self.requests = []
        """Time, method and path of each."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def ask(self, method, path):
        return self.rule(method, path) if self.rule else None

    def kubeconfig(self, path):
        """Write a kubeconfig that leads here, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": self.api._token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(yaml.safe_dump(config))
        return str(path)


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.proxy.requests.append((time.monotonic(), self.command, self.path))
        answer = self.proxy.ask(self.command, self.path)
        if answer == "cut":
            self.close_connection = True
        elif answer is not None:
            self._answer(*answer)
        else:
            try:
                self._hand_on(body)
            except (OSError, http.client.HTTPException):
                self.close_connection = True

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_):
        pass

    def _answer(self, code, headers, text):
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _hand_on(self, body):
        api = self.proxy.api
        upstream = http.client.HTTPSConnection(api.server.removeprefix("https://"), context=api._ssl, timeout=600)
        skipped = ("host", "connection", "accept-encoding", "authorization")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in skipped}
        headers["Authorization"] = f"Bearer {api._token}"  # Helm sends none without TLS.
        try:
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            if answer.status in (204, 304):
                self.end_headers()
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while part := answer.read1(65536):
                if "watch=" in self.path and self.proxy.ask("STREAM", self.path) == "cut":
                    self.close_connection = True
                    return
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        finally:
            upstream.close()


def status(code, reason, message, **headers):
    """Return an answer as the API server gives it when it refuses."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return code, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps({**body, "code": code})
