"""List and watch for ever: what the sink gets, when the server is asked again, and what is told."""

import asyncio
import logging
from itertools import pairwise
from types import SimpleNamespace

import pytest

from helm_operator.errors import ApiError, ApiUnavailable, Forbidden, Gone, NotFound
from helm_operator.kube import WatchEvent
from helm_operator.watchers import Reflector, reflector

PATH = "/api/v1/secrets"
QUERY = {"labelSelector": "owner=helm"}


class End(BaseException):
    """The script is over."""


class Script:
    """A Kube that plays lists and watches in order, and ends the reflector behind the last one.

    Its clock stands still but for pauses and for what a watch is said to take.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []
        self.pauses = []
        self.now = 1000.0

    async def list(self, path, query, *, metadata_only):
        assert (path, query, metadata_only) == (PATH, QUERY, True)
        self.calls.append("list")
        answer = self._next("list")
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(self, path, query, version, *, metadata_only):
        assert (path, query, metadata_only) == (PATH, QUERY, True)
        self.calls.append(version)
        for step in self._next("watch"):
            if isinstance(step, Exception):
                raise step
            if isinstance(step, WatchEvent):
                yield step
            else:
                self.now += step

    def _next(self, kind):
        if not self.answers:
            raise End
        wanted, answer = self.answers.pop(0)
        assert wanted == kind, f"a {kind} was asked for; next in the script is a {wanted}"
        return answer

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


class Sink:
    def __init__(self):
        self.told = []

    def replace(self, items, version):
        self.told.append(("replace", [item["metadata"]["name"] for item in items], version))

    def apply(self, type_, item):
        self.told.append((type_, item["metadata"]["name"]))


def item(name, version):
    return {"metadata": {"name": name, "resourceVersion": version}}


def listed(version, *names):
    return "list", ([item(name, "1") for name in names], version)


def event(type_, name, version):
    return WatchEvent(type_, item(name, version))


def watch(*steps):
    """A watch of these events, errors, and seconds that pass; it ends behind them."""
    return "watch", steps


def unavailable(**details):
    return ApiUnavailable("nobody answered", **details)


@pytest.fixture
def play(monkeypatch):
    """Run a reflector through a script; returns script, sink and reflector."""

    async def play(*answers):
        script, sink = Script(*answers), Sink()
        monkeypatch.setattr(reflector, "asyncio", SimpleNamespace(sleep=script.sleep))
        monkeypatch.setattr(reflector, "time", SimpleNamespace(monotonic=lambda: script.now))
        monkeypatch.setattr(reflector, "random", SimpleNamespace(uniform=lambda low, high: (low + high) / 2))
        subject = made(script, sink, monkeypatch)
        with pytest.raises(End):
            await subject.run()
        return script, sink, subject

    return play


def made(script, sink, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(reflector, "asyncio", asyncio)
        return Reflector(script, PATH, QUERY, sink, metadata_only=True, what="secrets")


def said(caplog):
    return [(record.levelno, record.getMessage().partition(":")[0]) for record in caplog.records]


CANNOT = "cannot watch secrets, trying again with growing pauses"
AGAIN = "watching secrets again"


async def test_the_list_and_then_each_event_reach_the_sink_and_a_watch_goes_on_where_it_ended(play):
    script, sink, subject = await play(
        listed("5", "a", "b"),
        watch(event("ADDED", "c", "6"), event("MODIFIED", "a", "7"), 290),
        watch(event("DELETED", "b", "8"), event("BOOKMARK", "", "12"), 290),
        watch(290),
        watch(290),
    )
    assert sink.told == [
        ("replace", ["a", "b"], "5"),
        ("ADDED", "c"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    assert script.calls == ["list", "5", "7", "12", "12", "12"]
    assert script.pauses == []
    assert subject.synced.is_set()
    assert not subject.refused.is_set()


async def test_a_version_that_is_gone_is_answered_by_a_new_list_at_once_and_without_a_word(play, caplog):
    caplog.set_level(logging.INFO)
    script, sink, _ = await play(
        listed("5", "a", "b"),
        watch(event("ADDED", "c", "6"), 100, Gone("too old", status=410)),
        listed("50", "a", "c"),
        watch(event("DELETED", "a", "51"), 290),
    )
    assert sink.told == [
        ("replace", ["a", "b"], "5"),
        ("ADDED", "c"),
        ("replace", ["a", "c"], "50"),
        ("DELETED", "a"),
    ]
    assert script.calls == ["list", "5", "list", "50", "51"]
    assert script.pauses == [0.0]
    assert said(caplog) == []


async def test_a_server_whose_every_version_is_gone_is_not_asked_over_and_over(play):
    gone = watch(Gone("too old", status=410))
    script, _, _ = await play(*[listed("5"), gone] * 6)

    assert script.pauses == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]


async def test_watches_that_end_at_once_are_not_asked_for_over_and_over(play):
    script, _, _ = await play(listed("5"), *[watch()] * 5)

    assert script.calls == ["list"] + ["5"] * 6
    assert script.pauses == [0.5, 1.0, 2.0, 4.0, 8.0]

    script, _, _ = await play(listed("5"), *[watch(event("BOOKMARK", "", "6"))] * 5)
    assert script.pauses == [0.5] * 5


async def test_pauses_grow_to_half_a_minute_and_begin_anew_once_it_works(play):
    broken = ("list", unavailable())
    script, _, _ = await play(
        *[broken] * 9,
        listed("5"),
        watch(event("ADDED", "a", "6"), 20, unavailable()),
        listed("7"),
        watch(unavailable()),
        listed("7"),
        watch(unavailable()),
        listed("7"),
        watch(16, unavailable()),
        listed("7"),
    )
    assert script.pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 0.5, 1.0, 2.0, 0.5]


async def test_the_server_may_ask_for_a_longer_pause(play):
    script, _, _ = await play(
        ("list", unavailable(status=429, retry_after=7)),
        ("list", unavailable(status=429, retry_after=0.1)),
        listed("5"),
    )
    assert script.pauses == [7, 1.0]


async def test_many_reflectors_do_not_come_back_in_step(monkeypatch):
    script = Script(*[("list", unavailable())] * 40)
    monkeypatch.setattr(reflector, "asyncio", SimpleNamespace(sleep=script.sleep))
    with pytest.raises(End):
        await made(script, Sink(), monkeypatch).run()

    longest = script.pauses[6:]
    assert all(30 * 0.8 <= pause <= 30 * 1.2 for pause in longest)
    assert len({round(pause, 3) for pause in longest}) > 20
    assert all(one != other for one, other in pairwise(longest))


async def test_trouble_is_told_once_when_it_begins_once_when_it_changes_and_once_when_it_ends(play, caplog):
    caplog.set_level(logging.INFO)
    await play(
        *[("list", unavailable())] * 5,
        *[("list", Forbidden("no", status=403))] * 5,
        listed("5"),
        watch(event("ADDED", "a", "6"), 290),
    )
    assert said(caplog) == [(logging.WARNING, CANNOT), (logging.WARNING, CANNOT), (logging.INFO, AGAIN)]
    assert caplog.records[1].getMessage() == f"{CANNOT}: no"


async def test_a_watch_that_is_refused_while_the_list_is_not_is_told_once(play, caplog):
    caplog.set_level(logging.INFO)
    refused = watch(Forbidden("no", status=403))
    script, _, subject = await play(*[listed("5"), refused] * 5)

    assert said(caplog) == [(logging.WARNING, CANNOT)]
    assert script.pauses == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert subject.refused.is_set()

    caplog.clear()
    await play(*[listed("5"), refused] * 5, listed("5"), watch(event("ADDED", "a", "6"), 290))
    assert said(caplog) == [(logging.WARNING, CANNOT), (logging.INFO, AGAIN)]


async def test_a_short_gap_behind_the_first_list_is_no_warning(play, caplog):
    caplog.set_level(logging.INFO)
    await play(listed("5"), watch(event("ADDED", "a", "6"), 100, unavailable()), listed("7"), watch(60))

    assert said(caplog) == [(logging.INFO, CANNOT), (logging.INFO, AGAIN)]


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (Forbidden("no", status=403), True),
        (NotFound("no such kind", status=404), True),
        (unavailable(), False),
        (ApiError("bad request", status=400), False),
    ],
)
async def test_a_refusal_is_known_until_a_list_arrives(play, error, refused):
    _, _, subject = await play(("list", error), ("list", error))
    assert (subject.refused.is_set(), subject.synced.is_set()) == (refused, False)

    _, _, subject = await play(("list", error), listed("5"))
    assert (subject.refused.is_set(), subject.synced.is_set()) == (False, True)


async def test_it_ends_when_it_is_cancelled():
    class Waits(Script):
        async def watch(self, *_, **__):
            await asyncio.sleep(60)
            yield

    subject = Reflector(Waits(listed("5")), PATH, QUERY, Sink(), metadata_only=True, what="secrets")
    task = asyncio.create_task(subject.run())
    await asyncio.wait_for(subject.synced.wait(), 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
