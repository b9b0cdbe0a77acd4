"""A small synchronous client for tests: JSON in, JSON out, over one kubeconfig."""

import asyncio
import base64
import contextlib
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

from helm_operator.kube import KubeClient, load_configuration

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Refused(Exception):
    """The API server answered with an error."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    def __init__(self, kubeconfig):
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        self.server = cluster["server"]
        self._token = user.get("token")
        self._ssl = ssl.create_default_context()
        if "certificate-authority-data" in cluster:
            pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
            self._ssl = ssl.create_default_context(cadata=pem)

    def request(self, method, path, body=None, content_type="application/json", patience=50):
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": "tests"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._ssl, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 429 and patience:
                time.sleep(0.2)
                return self.request(method, path, body, content_type, patience - 1)
            raise Refused(error.code, error.read().decode()) from None

    def get(self, path):
        """Return the object, or None where there is none."""
        try:
            return self.request("GET", path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def items(self, path, **query):
        return self.request("GET", f"{path}?{urllib.parse.urlencode(query)}")["items"]

    def post(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body, content_type=MERGE):
        return self.request("PATCH", path, body, content_type)

    def delete(self, path):
        try:
            return self.request("DELETE", path)
        except Refused as error:
            if error.status != 404:
                raise
            return None


def kubeconfig():
    path = os.environ.get("KUBECONFIG")
    assert path, "no cluster: run the tests by `make test`, or through `python -m tools.localcluster run -- pytest …`"
    return path


@contextlib.asynccontextmanager
async def kube_client(path=None):
    """Give the operator's own client of the API server."""
    configuration, _ = await load_configuration(path or kubeconfig())
    kube = KubeClient(configuration)
    try:
        yield kube
    finally:
        await kube.close()
        await asyncio.sleep(0.05)  # TLS connections take a moment to end, and a loop that ends before warns.


def kubectl(*arguments, stdin=None):
    done = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def eventually(check, *, timeout=20.0, pause=0.1):
    """Repeat `check` until it fails no more, be it by an assertion or for lack of a key; return its result."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return check()
        except (AssertionError, LookupError, TypeError):
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
