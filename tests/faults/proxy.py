"""A proxy before the API server that answers as it is told: with errors, too late, or with half a body."""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml


class Proxy:
    """Hands requests on; `rule` may answer one itself. As a context manager it runs inside the `with` block.

    `rule(method, path)` returns None to hand the request on, (status, headers, text) to answer it, or "cut" to end
    the connection without a word.
    """

    def __init__(self, api):
        self.rule = None
        self.requests = []
        """Time, method and path of each."""
        proxy, host = self, api.server.removeprefix("https://")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.requests.append((time.monotonic(), self.command, self.path))
                rule = proxy.rule
                answer = rule(self.command, self.path) if rule else None
                if answer == "cut":
                    self.close_connection = True
                elif answer is not None:
                    self._answer(*answer)
                else:
                    self._hand_on(body)

            def _answer(self, status, headers, text):
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def _hand_on(self, body):
                upstream = http.client.HTTPSConnection(host, context=proxy._context(api), timeout=600)
                try:
                    skipped = ("host", "connection", "accept-encoding")
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in skipped}
                    upstream.request(self.command, self.path, body or None, headers)
                    answer = upstream.getresponse()
                    self.send_response(answer.status)
                    for name, value in answer.getheaders():
                        if name.lower() not in ("transfer-encoding", "content-length", "connection", "date"):
                            self.send_header(name, value)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    while part := answer.read1(65536):
                        if proxy.rule and proxy.rule("STREAM", self.path) == "cut" and "watch=" in self.path:
                            break
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                        self.wfile.flush()
                    else:
                        self.wfile.write(b"0\r\n\r\n")
                        return
                    self.close_connection = True
                except OSError:
                    self.close_connection = True
                finally:
                    upstream.close()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._api = api

    def _context(self, api):
        return api._ssl

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, path):
        """Write a kubeconfig that leads here, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": self._api._token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def rate(self, seconds):
        """Return the requests of the last seconds, for each second."""
        since = time.monotonic() - seconds
        return len([moment for moment, _, _ in self.requests if moment >= since]) / seconds


def status(code, reason, message, **headers):
    """Return an answer as the API server gives it when it refuses."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return code, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body)
