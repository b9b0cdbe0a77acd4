"""HTTP to the API server over kubernetes.aio's client: bytes in, JSON out, typed errors.

The generated models are left aside: objects of any kind pass through as plain JSON, and a
null in a custom resource stays a null.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.config import ConfigException

from helm_operator.errors import (
    ApiError,
    ApiUnavailable,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    NotLeading,
    Problem,
)
from helm_operator.kube.port import Credentials, WatchEvent
from helm_operator.release import Json

logger = logging.getLogger(__name__)

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, connect=10)
_WATCH_SECONDS: Final = 290
"""How long the server is asked to keep a watch open."""
_WATCH_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=10, sock_read=_WATCH_SECONDS + 30)
_TOKEN_SECONDS: Final = 60.0
"""How long a kubeconfig's token is used before it is read again."""
_UNREADABLE: Final = (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError)
"""What the client's loader raises for files that are no kubeconfig."""
_METADATA: Final = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1,application/json"


async def load_configuration(kubeconfig: str | None = None) -> tuple[Any, str | None]:
    """Find the cluster as operator-sdk does: KUBECONFIG, in-cluster account, ~/.kube/config.

    Returns the client's configuration and the kubeconfig file in use (None in a cluster).

    Raises:
        ConfigError: no cluster is configured, or the kubeconfig cannot be read.
    """
    configuration = client.Configuration()
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if not path and _SERVICE_ACCOUNT.exists():
        try:
            config.load_incluster_config(client_configuration=configuration)
        except (ConfigException, OSError) as error:
            raise _not_usable(str(_SERVICE_ACCOUNT.parent), "service account", error) from error
        return configuration, None
    default = os.path.expanduser("~/.kube/config")  # noqa: PTH111 - Path's raises where there is no home
    if not path and not os.path.exists(default):  # noqa: PTH110
        text = "no cluster: set KUBECONFIG to a kubeconfig file, or run in a Pod"
        raise ConfigError([Problem("KUBECONFIG", None, "", text)])
    file = path or default
    try:
        await config.load_kube_config(config_file=file, client_configuration=configuration)
    except _UNREADABLE as error:
        raise _not_usable(file, "kubeconfig", error) from error
    configuration.refresh_api_key_hook = _Refresh(file)
    return configuration, file


class _Refresh:
    """Takes a kubeconfig's token up anew: it may come from a file that rotates, or from a plugin."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._due = time.monotonic() + _TOKEN_SECONDS

    async def __call__(self, configuration: Any) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _TOKEN_SECONDS
        fresh = client.Configuration()
        try:
            await config.load_kube_config(config_file=self._file, client_configuration=fresh)
        except _UNREADABLE as error:
            logger.warning("%s: the token cannot be read anew, the old one stays in use: %s", self._file, error)
            return
        if fresh.host == configuration.host:  # Else the file names another cluster by now.
            configuration.api_key.update(fresh.api_key)


def _not_usable(file: str, what: str, error: Exception) -> ConfigError:
    return ConfigError([Problem(file, None, "", f"not a usable {what}: {error}")])


async def credentials(configuration: Any) -> Credentials:
    """Return what another client needs to reach the same server, with a fresh token."""
    token = scheme = None
    for setting in (await configuration.auth_settings()).values():
        scheme, _, token = str(setting["value"]).rpartition(" ")
    return Credentials(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        ca_data=configuration.ca_cert_data,
        insecure=not configuration.verify_ssl,
        token=token,
        scheme=scheme or ("Bearer" if token else None),
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


class Transport:
    """Two clients of one server: a bounded pool for requests, and one for watches.

    A watch holds its connection for minutes, so watches must not starve the requests.
    """

    def __init__(
        self,
        configuration: Any,
        *,
        user_agent: str,
        connections: int = 32,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """`connections` bounds the requests that are under way at once; `may_write` is asked before each change."""
        self._may_write = may_write
        configuration.connection_pool_maxsize = connections
        self._requests = client.ApiClient(configuration)
        self._requests.user_agent = user_agent
        unbounded = _unbounded(configuration)
        self._watches = client.ApiClient(unbounded)
        self._watches.user_agent = user_agent
        self.requests = 0
        """Requests sent so far, watches included."""

    async def close(self) -> None:
        await self._requests.close()
        await self._watches.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        """Send one request and return the answer's JSON.

        Raises:
            ApiError: and its kinds, by the HTTP status of the answer.
        """
        async with self._answer(self._requests, method, path, query, body, content_type, accept, _TIMEOUT) as answer:
            data = await answer.read()
        return _json_object(data, method, path)

    async def watch(
        self, path: str, query: Mapping[str, str], resource_version: str, *, metadata_only: bool
    ) -> AsyncIterator[WatchEvent]:
        """Yield the events of one watch request until the server ends it."""
        query = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        accept = metadata_accept(listing=False) if metadata_only else "application/json"
        async with self._answer(
            self._watches, "GET", path, query, None, "application/json", accept, _WATCH_TIMEOUT
        ) as answer:
            async for line in _lines(answer.content):
                event = _json_object(line, "GET", path)
                type_, item = event.get("type"), event.get("object")
                if not isinstance(type_, str) or not isinstance(item, dict):
                    raise ApiUnavailable(f"GET {path}: the answer is not a watch's: {_excerpt(line)}")
                if type_ == "ERROR":
                    raise _error(item.get("code", 0), item, "GET", path, None)
                yield WatchEvent(type_, item)

    @asynccontextmanager
    async def _answer(
        self,
        api: Any,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        accept: str,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if method != "GET" and not self._may_write():
            raise NotLeading(f"{method} {path} was not sent: this replica does not lead")
        self.requests += 1
        headers = {"Accept": accept, "Content-Type": content_type}
        try:
            _, url, headers, _, _ = await api.param_serialize(
                method, path, header_params=headers, auth_settings=["BearerToken"]
            )
            if query:
                url += "?" + urlencode(query)
            answer = (await api.call_api(method, url, headers, body=body, _request_timeout=timeout)).response
            async with answer:
                if answer.status >= 400:
                    raise _error(
                        answer.status,
                        _status_object(await answer.read()),
                        method,
                        path,
                        answer.headers.get("Retry-After"),
                    )
                yield answer
        except ConfigException as error:
            raise ApiUnavailable(f"{method} {path}: the operator's own credentials: {error}") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            what = str(error) or type(error).__name__
            raise ApiUnavailable(f"the API server did not answer {method} {path}: {what}") from error


def metadata_accept(*, listing: bool) -> str:
    """Return the Accept header that asks for metadata only."""
    return _METADATA.format(list="List" if listing else "")


def _unbounded(configuration: Any) -> Any:
    unbounded = copy.copy(configuration)  # Its own deepcopy would detach the token's refresh.
    unbounded.connection_pool_maxsize = 0
    return unbounded


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into lines of any length (a release Secret may be over 1 MiB)."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _json_object(data: bytes, method: str, path: str) -> Json:
    """Read an answer; one that is no JSON object (a proxy's page, a cut body) counts as none."""
    try:
        parsed = json.loads(data)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ApiUnavailable(f"{method} {path}: the answer is not JSON of the API: {_excerpt(data)}")
    return parsed


def _status_object(data: bytes) -> Json:
    try:
        parsed = json.loads(data)
    except ValueError:
        return {"message": _excerpt(data)}
    return parsed if isinstance(parsed, dict) else {}


def _excerpt(data: bytes) -> str:
    return data[:500].decode(errors="replace").strip()


def _error(status: int, answer: Mapping[str, Any], method: str, path: str, retry_after: str | None) -> ApiError:
    message = answer.get("message") or f"HTTP {status}"
    reason = str(answer.get("reason") or "")
    seconds = (answer.get("details") or {}).get("retryAfterSeconds")
    if retry_after and retry_after.isdigit():
        seconds = int(retry_after)
    kind: type[ApiError]
    match status:
        case 401 | 403:
            kind = Forbidden
        case 404:
            kind = NotFound
        case 409:
            kind = Conflict
        case 410:
            kind = Gone
        case 429:
            kind = ApiUnavailable
        case _:
            kind = ApiUnavailable if status >= 500 else ApiError
    return kind(f"{method} {path}: {message}", status=status, reason=reason, retry_after=seconds)
