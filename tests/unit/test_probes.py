import asyncio
import socket
import urllib.error
import urllib.request

import pytest

from helm_operator.probes import Probes, parse_address


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", None),
        ("0", None),
        (":8081", (None, 8081)),
        ("0.0.0.0:8081", ("0.0.0.0", 8081)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:8081", ("::1", 8081)),
        ("[::]:65535", ("::", 65535)),
    ],
)
def test_an_address_is_host_and_port(text, wanted):
    assert parse_address(text) == wanted


@pytest.mark.parametrize(
    "text", ["8081", "localhost", "localhost:", ":http", ":-1", ":65536", "::1", "::1:80", ":\N{SUPERSCRIPT TWO}", " "]
)
def test_anything_else_is_refused_with_what_was_expected(text):
    with pytest.raises(ValueError, match="is not an address: expected host:port") as caught:
        parse_address(text)
    assert repr(text) in str(caught.value)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def ask(port, path):
    def get():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


async def test_it_is_healthy_from_the_start_and_ready_later():
    ready = False
    port = free_port()
    probes = Probes(f"127.0.0.1:{port}", ready=lambda: ready)
    await probes.start()
    try:
        assert await ask(port, "/healthz") == (200, "ok")
        assert await ask(port, "/readyz") == (503, "not ready: the watches are not synced yet")
        ready = True
        assert await ask(port, "/readyz") == (200, "ok")
        assert (await ask(port, "/metrics"))[0] == 404
    finally:
        await probes.stop()
    with pytest.raises(OSError, match="refused"):
        await ask(port, "/healthz")


async def test_without_an_address_there_is_no_server():
    probes = Probes("0", ready=lambda: True)
    await probes.start()
    await probes.stop()


async def test_an_address_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        probes = Probes(f"127.0.0.1:{port}", ready=lambda: True)
        with pytest.raises(OSError, match=str(port)):
            await probes.start()
        await probes.stop()
