"""What becomes of answers that a real API server gives rarely: played by a small server that speaks its API."""

import asyncio
import contextlib
import json
from itertools import pairwise

import pytest
from aiohttp import ClientTimeout, web
from kubernetes.aio import client

from helm_operator.errors import ApiError, ApiUnavailable, Conflict, Forbidden, Gone, NotFound
from helm_operator.kube import KubeClient, Resource, transport
from helm_operator.release import ObjectRef, ReleaseKey

SECRETS = "/api/v1/secrets"
QUERY = {"labelSelector": "owner=helm"}


class Server:
    """Plays one answer for each request; a request that no answer was written for fails the test."""

    def __init__(self):
        self.answers = []
        self.requests = []
        self.port = 0

    async def serve(self, request):
        self.requests.append(request)
        if not self.answers:
            return web.json_response({"message": "no answer was written for this request"}, status=418)
        return await self.answers.pop(0)(request)

    def plays(self, *answers):
        self.answers += answers


@pytest.fixture
async def server():
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    yield server
    await runner.cleanup()
    assert not server.answers, "answers are left over"


@pytest.fixture
async def kube(server):
    kube = KubeClient(client.Configuration(host=f"http://127.0.0.1:{server.port}"))
    yield kube
    await kube.close()


def answers(body, status=200, **headers):
    async def answer(_):
        headers_ = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return web.Response(text=body, status=status, headers=headers_)
        return web.json_response(body, status=status, headers=headers_)

    return answer


def fails(status, message="no", **rest):
    headers = rest.pop("headers", {})
    return answers({"kind": "Status", "message": message, "code": status, **rest}, status, **headers)


def streams(*chunks, cut=False):
    """Send these bytes as the chunks of one answer; `cut` breaks the connection behind them."""

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.005)
        if cut:
            request.transport.abort()
        return response

    return answer


async def hangs(_):
    await asyncio.sleep(60)


def line(type_, number, **rest):
    meta = {"name": f"s-{number}", "resourceVersion": str(number)}
    return json.dumps({"type": type_, "object": {"metadata": meta, **rest}}, ensure_ascii=False).encode() + b"\n"


def error_line(code, message="too old"):
    status = {"kind": "Status", "code": code, "message": message, "reason": "Expired"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


async def watched(kube, version="7", into=None):
    events = [] if into is None else into
    async for event in kube.watch(SECRETS, QUERY, version, metadata_only=True):
        events.append((event.type, event.object["metadata"]["resourceVersion"]))
    return events


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ApiError),
        (401, Forbidden),
        (403, Forbidden),
        (404, NotFound),
        (405, ApiError),
        (409, Conflict),
        (410, Gone),
        (422, ApiError),
        (429, ApiUnavailable),
        (500, ApiUnavailable),
        (503, ApiUnavailable),
        (504, ApiUnavailable),
    ],
)
async def test_each_status_has_its_error_which_names_the_request_and_is_not_retried(server, kube, status, kind):
    server.plays(fails(status, "here is why", reason="Because"))

    with pytest.raises(ApiError) as caught:
        await kube.list(SECRETS, {}, metadata_only=True)

    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason, caught.value.retry_after) == (status, "Because", None)
    assert str(caught.value) == "GET /api/v1/secrets: here is why"
    assert (len(server.requests), kube.requests) == (1, 1)


async def test_the_server_says_when_to_come_again(server, kube):
    server.plays(
        fails(429, headers={"Retry_After": "7"}),
        fails(429, details={"retryAfterSeconds": 3}),
        fails(503, headers={"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    )
    found = []
    for _ in range(3):
        with pytest.raises(ApiUnavailable) as caught:
            await kube.version()
        found.append(caught.value.retry_after)

    assert found == [7, 3, None]


async def test_an_error_page_of_a_proxy_is_told_in_short(server, kube):
    server.plays(answers("<html>Bad Gateway " + "x" * 5000, 502))

    with pytest.raises(ApiUnavailable, match="Bad Gateway") as caught:
        await kube.version()

    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("body", ["<html>sign in</html>", '{"gitVersion": "v1', "[]", "null", "7"])
async def test_an_answer_that_is_no_json_object_counts_as_none(server, kube, body):
    server.plays(answers(body))

    with pytest.raises(ApiUnavailable, match="GET /version"):
        await kube.version()


async def test_no_server_is_told_as_unavailable():
    kube = KubeClient(client.Configuration(host="http://127.0.0.1:1"))
    with pytest.raises(ApiUnavailable, match="did not answer GET /version") as caught:
        await kube.version()
    with pytest.raises(ApiUnavailable):
        await watched(kube)

    assert caught.value.status == 0
    await kube.close()


async def test_a_server_that_hangs_is_given_up(server, kube, monkeypatch):
    monkeypatch.setattr(transport, "_TIMEOUT", ClientTimeout(total=0.1))
    server.plays(hangs)

    async with asyncio.timeout(5):
        with pytest.raises(ApiUnavailable, match="did not answer GET /version"):
            await kube.version()


async def test_a_watch_that_falls_silent_is_given_up(server, kube, monkeypatch):
    monkeypatch.setattr(transport, "_WATCH_TIMEOUT", ClientTimeout(total=None, sock_read=0.1))

    async def falls_silent(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ADDED", 8))
        await asyncio.sleep(60)

    server.plays(falls_silent)
    events = []
    async with asyncio.timeout(5):
        with pytest.raises(ApiUnavailable):
            await watched(kube, into=events)

    assert events == [("ADDED", "8")]


async def test_a_watch_asks_for_bookmarks_an_end_and_only_metadata(server, kube):
    server.plays(streams(line("ADDED", 8) + line("MODIFIED", 9), line("BOOKMARK", 12), line("DELETED", 13)))

    assert await watched(kube) == [("ADDED", "8"), ("MODIFIED", "9"), ("BOOKMARK", "12"), ("DELETED", "13")]

    (request,) = server.requests
    assert request.query["resourceVersion"] == "7"
    assert request.query["labelSelector"] == "owner=helm"
    assert request.query["allowWatchBookmarks"] == request.query["watch"] == "true"
    assert 60 <= int(request.query["timeoutSeconds"]) <= 600
    assert request.headers["Accept"].startswith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    assert request.headers["User-Agent"] == "helm-operator"


async def test_watch_lines_may_be_long_and_cut_anywhere(server, kube):
    long = line("MODIFIED", 9, note="🚢é\u2028" * 200_000)
    assert len(long) > 1 << 20
    sent = line("ADDED", 8) + long + b"\n" + line("ADDED", 10)
    cuts = [0, 1, 50, len(line("ADDED", 8)), 300_001, 300_002, 300_003, 1_500_000, len(sent) - 1, len(sent)]
    server.plays(streams(*(sent[a:b] for a, b in pairwise(cuts))))

    notes = [event.object.get("note") async for event in kube.watch(SECRETS, {}, "7", metadata_only=False)]

    assert notes == [None, "🚢é\u2028" * 200_000, None]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (fails(410), Gone),
        (streams(line("ADDED", 8) + error_line(410)), Gone),
        (streams(line("ADDED", 8), error_line(500)), ApiUnavailable),
        (streams(line("ADDED", 8), line("ADDED", 9)[:-20], cut=True), ApiUnavailable),
        (streams(line("ADDED", 8), b"<html>\n"), ApiUnavailable),
        (streams(line("ADDED", 8), b'{"type": "ADDED"}\n'), ApiUnavailable),
    ],
    ids=["410", "ERROR 410", "ERROR 500", "cut", "no JSON", "no object"],
)
async def test_a_watch_ends_with_an_error_behind_the_events_that_came(server, kube, answer, kind):
    server.plays(answer)
    events = []
    with pytest.raises(ApiError) as caught:
        await watched(kube, into=events)

    assert type(caught.value) is kind
    assert events in ([], [("ADDED", "8")])
    assert (events == []) == (caught.value.status == 410 and "too old" not in str(caught.value))


async def test_an_expired_page_of_a_list_is_gone(server, kube):
    server.plays(
        answers({"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "c1", "resourceVersion": "5"}}),
        fails(410, reason="Expired"),
    )
    with pytest.raises(Gone):
        await kube.list(SECRETS, QUERY, metadata_only=True)

    assert [dict(r.query) for r in server.requests] == [
        {"labelSelector": "owner=helm", "limit": "500"},
        {"labelSelector": "owner=helm", "limit": "500", "continue": "c1"},
    ]


async def test_watches_do_not_take_the_requests_connections(server, kube):
    count = 60
    ended = asyncio.Event()

    async def stays_open(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ADDED", 8))
        await ended.wait()
        return response

    server.plays(*[stays_open] * count, answers({"gitVersion": "v1.36.3"}))
    seen = []
    tasks = [asyncio.create_task(watched(kube, into=seen)) for _ in range(count)]
    async with asyncio.timeout(5):
        while len(seen) < count:  # noqa: ASYNC110 - the server's side has no event
            await asyncio.sleep(0.01)
        assert await kube.version() == "v1.36.3"
    ended.set()
    await asyncio.gather(*tasks)


async def test_a_cancelled_watch_closes_its_connection(server, kube):
    closed = asyncio.Event()

    async def stays_open(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):
            while True:
                await response.write(line("BOOKMARK", 8))
                await asyncio.sleep(0.01)
        closed.set()
        return response

    server.plays(stays_open)
    task = asyncio.create_task(watched(kube))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(closed.wait(), 5)


DISCOVERY = {
    "resources": [
        {"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": ["get", "list"]},
        {"name": "widgets/status", "kind": "Widget", "namespaced": True, "verbs": ["patch"]},
        {"name": "zones", "kind": "Zone", "namespaced": False, "verbs": ["get"]},
    ]
}


async def test_a_kind_is_looked_up_once_until_it_is_forgotten(server, kube):
    server.plays(answers(DISCOVERY))
    widget = await kube.resource("lab.example.com/v1", "Widget")
    zone = await kube.resource("lab.example.com/v1", "Zone")

    assert (widget.plural, widget.namespaced, widget.status_subresource) == ("widgets", True, True)
    assert (zone.plural, zone.namespaced, zone.status_subresource) == ("zones", False, False)
    assert widget.path("shop", "web", "status") == "/apis/lab.example.com/v1/namespaces/shop/widgets/web/status"
    assert len(server.requests) == 1

    server.plays(answers({"resources": DISCOVERY["resources"][2:]}))
    kube.forget_resource("lab.example.com/v1")
    assert await kube.resource("lab.example.com/v1", "Zone") == zone
    server.plays(answers({"resources": DISCOVERY["resources"][2:]}))
    with pytest.raises(NotFound, match=r"does not serve Widget in lab\.example\.com/v1"):
        await kube.resource("lab.example.com/v1", "Widget")


async def test_a_kind_that_is_not_served_is_asked_for_again_after_five_seconds(server, kube, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("helm_operator.kube.client.time.monotonic", lambda: now)
    server.plays(fails(404))
    for seconds in (0, 2, 4.9):
        now = 1000.0 + seconds
        with pytest.raises(NotFound, match=r"does not serve Widget in lab\.example\.com/v1"):
            await kube.resource("lab.example.com/v1", "Widget")
    assert len(server.requests) == 1

    now = 1005.0
    server.plays(answers(DISCOVERY))
    assert (await kube.resource("lab.example.com/v1", "Widget")).plural == "widgets"


async def test_a_kind_is_not_missed_where_nobody_answered(server, kube):
    server.plays(fails(503), answers(DISCOVERY))
    with pytest.raises(ApiUnavailable):
        await kube.resource("lab.example.com/v1", "Widget")

    assert (await kube.resource("lab.example.com/v1", "Widget")).kind == "Widget"


async def test_a_name_is_one_part_of_the_path_whatever_is_in_it(server, kube):
    """RBAC names may have any character but a slash and a percent sign."""
    roles = {"resources": [{"name": "clusterroles", "kind": "ClusterRole", "namespaced": False}]}
    server.plays(answers(roles), answers({"metadata": {"resourceVersion": "1"}}))
    await kube.get_object(ObjectRef("rbac.authorization.k8s.io/v1", "ClusterRole", "", "system:a b?c#d"))

    request = server.requests[1]
    assert request.path == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a b?c#d"
    assert not request.query


async def test_an_empty_answer_is_taken_neither_for_an_object_nor_for_an_empty_list(server, kube):
    kinds = {"resources": [{"name": "widgets", "kind": "Widget", "namespaced": True}]}
    server.plays(*[answers({})] * 2, answers(kinds), answers({}))
    with pytest.raises(ApiUnavailable, match="is no list"):
        await kube.release_records(ReleaseKey("shop", "web"))
    with pytest.raises(ApiUnavailable, match="no list of kinds"):
        await kube.resource("example.com/v1", "Widget")
    widgets = await kube.resource("example.com/v1", "Widget")
    with pytest.raises(ApiUnavailable, match="is no object"):
        await kube.get_custom_resource(widgets, "shop", "web")


def test_paths_of_core_and_other_groups():
    assert Resource("", "v1", "Secret", "secrets", namespaced=True).path("shop", "a") == (
        "/api/v1/namespaces/shop/secrets/a"
    )
    assert Resource("", "v1", "Secret", "secrets", namespaced=True).path() == "/api/v1/secrets"
    assert Resource("", "v1", "Node", "nodes", namespaced=False).path("shop", "a") == "/api/v1/nodes/a"
