"""The election: what is decided (pure), and what is made of an API server that fails."""

import asyncio
import copy
import json
import logging

import pytest

from helm_operator.errors import ApiUnavailable, Conflict, Forbidden, NotFound
from helm_operator.leader import (
    Elector,
    Observed,
    Record,
    Step,
    Terms,
    decide,
    given_back,
    observe,
    own_identity,
    steady_clock,
    written,
)
from helm_operator.settings import LeaseName

TERMS = Terms()
NAME = LeaseName("ops", "helm-operator")


def record(holder="b", renewed="2026-11-30T10:00:00.000000Z", duration=15.0, transitions=0):
    return Record(holder, duration, "2026-11-30T09:00:00.000000Z", renewed, transitions)


# What is decided


@pytest.mark.parametrize(
    ("holder", "there", "renewed", "now", "step"),
    [
        # Who does not lead …
        ("", False, None, 100.0, Step.CREATE),
        ("", True, None, 100.0, Step.TAKE),  # It was given back.
        ("b", True, None, 100.0, Step.WAIT),
        ("b", True, None, 114.9, Step.WAIT),
        ("b", True, None, 115.0, Step.TAKE),  # It did not change for its duration.
        ("b", False, None, 114.9, Step.WAIT),  # Deleted by hand: the holder may still act.
        ("b", False, None, 115.0, Step.CREATE),
        ("a", True, None, 100.0, Step.RENEW),  # Our own write, whose answer got lost.
        # … and who does.
        ("a", True, 98.0, 100.0, Step.RENEW),
        ("a", True, 90.1, 100.0, Step.RENEW),
        ("a", True, 90.0, 100.0, Step.GIVE_UP),  # The deadline passed, even though nobody took it.
        ("a", False, 98.0, 100.0, Step.CREATE),  # Deleted by hand.
        ("a", False, 90.0, 100.0, Step.GIVE_UP),
        ("a", False, None, 100.0, Step.CREATE),
        ("b", True, 98.0, 100.0, Step.GIVE_UP),
        ("b", True, 98.0, 120.0, Step.GIVE_UP),  # Not taken back, even after it ran out.
        ("b", False, 98.0, 120.0, Step.GIVE_UP),
        ("", True, 98.0, 100.0, Step.TAKE),  # Cleared by hand.
        ("", True, 90.0, 100.0, Step.GIVE_UP),
    ],
)
def test_what_is_done_about_a_lease(holder, there, renewed, now, step):
    observed = Observed(record(holder) if there else None, holder, 115.0 if holder else 100.0)
    assert decide(observed, identity="a", renewed=renewed, now=now, terms=TERMS) is step


def test_only_a_change_of_the_record_tells_that_its_holder_lives_whatever_its_clock_says():
    first = observe(None, record(renewed="1999-01-01T00:00:00.000000Z"), 100.0, TERMS)
    assert first.free_at == 115.0
    same = observe(first, record(renewed="1999-01-01T00:00:00.000000Z"), 110.0, TERMS)
    assert same.free_at == 115.0
    back = observe(same, record(renewed="1998-01-01T00:00:00.000000Z"), 112.0, TERMS)
    assert back.free_at == 127.0
    far = observe(back, record(renewed="2099-01-01T00:00:00.000000Z"), 113.0, TERMS)
    assert far.free_at == 128.0


@pytest.mark.parametrize(
    ("before", "now", "free_at"),
    [
        (None, record(), 115.0),
        (None, record(duration=60.0), 160.0),  # The holder's own word counts.
        (None, record(duration=0.0), 115.0),
        (None, record(holder=""), 100.0),
        (None, None, 100.0),
        (Observed(record(), "b", 107.0), None, 115.0),  # Its holder may have renewed it just before.
        (Observed(record(holder=""), "", 90.0), None, 115.0),  # Somebody may have taken it just before.
        (Observed(None, "b", 107.0), None, 107.0),
        (Observed(record(), "b", 107.0), record(holder="c"), 115.0),
        (Observed(None, "b", 107.0), record(), 115.0),
    ],
)
def test_until_when_a_record_keeps_others_away(before, now, free_at):
    assert observe(before, now, 100.0, TERMS).free_at == free_at


@pytest.mark.parametrize("lease", [{}, {"spec": None}, {"spec": {}}, {"spec": {"holderIdentity": None}}])
def test_a_lease_without_a_holder_is_free(lease):
    found = observe(None, Record.from_lease(lease), 100.0, TERMS)
    assert decide(found, identity="a", renewed=None, now=100.0, terms=TERMS) is Step.TAKE


def test_what_is_written_keeps_what_others_wrote():
    old = {
        "metadata": {"name": "x", "resourceVersion": "7", "labels": {"team": "x"}},
        "spec": {"holderIdentity": "b", "leaseTransitions": 3, "acquireTime": "then", "strategy": "OldestEmulation"},
    }
    before = copy.deepcopy(old)
    taken = written(old, Step.TAKE, identity="a", moment="now", terms=TERMS)
    assert old == before
    assert taken["metadata"] == old["metadata"]
    assert taken["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 4,
        "acquireTime": "now",
        "renewTime": "now",
        "strategy": "OldestEmulation",
    }
    renewed = written(taken, Step.RENEW, identity="a", moment="later", terms=TERMS)
    assert renewed["spec"] == {**taken["spec"], "renewTime": "later"}
    assert written({}, Step.CREATE, identity="a", moment="now", terms=TERMS)["spec"]["leaseTransitions"] == 0
    free = given_back(renewed, moment="end")
    assert free["spec"] == {
        **renewed["spec"],
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": "end",
        "renewTime": "end",
    }


def test_no_two_processes_have_one_name_and_time_passes():
    assert own_identity() != own_identity()
    assert "_" in own_identity()
    assert steady_clock() <= steady_clock()


# What is made of it


class Leases:
    """The API server's Leases, in memory; `faults` are raised by the next requests, None lets one pass."""

    def __init__(self):
        self.stored = {}
        self.version = 0
        self.faults = {"get": [], "create": [], "update": []}
        self.requests = []
        self.lost_answers = 0
        self.hang = False

    async def _begin(self, verb, name):
        self.requests.append(verb)
        if self.hang:
            await asyncio.sleep(3600)
        if self.faults[verb] and (error := self.faults[verb].pop(0)) is not None:
            raise error
        if verb != "create" and name not in self.stored:
            raise NotFound(f"{name} not found", status=404)

    async def get_lease(self, namespace, name):
        await self._begin("get", name)
        return copy.deepcopy(self.stored[name])

    async def create_lease(self, namespace, lease):
        name = lease["metadata"]["name"]
        await self._begin("create", name)
        if name in self.stored:
            raise Conflict("exists", status=409)
        return await self._store(lease)

    async def update_lease(self, namespace, lease):
        name = lease["metadata"]["name"]
        await self._begin("update", name)
        if self.stored[name]["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
            raise Conflict("changed", status=409)
        return await self._store(lease)

    async def _store(self, lease):
        self.version += 1
        lease = copy.deepcopy(lease)
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.stored[lease["metadata"]["name"]] = lease
        if self.lost_answers:
            self.lost_answers -= 1
            raise ApiUnavailable("the answer got lost")
        return copy.deepcopy(lease)

    def edit(self, **spec):
        """Change the Lease by hand."""
        self.version += 1
        self.stored[NAME.name]["spec"] |= spec
        self.stored[NAME.name]["metadata"]["resourceVersion"] = str(self.version)

    @property
    def holder(self):
        return self.stored[NAME.name]["spec"]["holderIdentity"]

    @property
    def transitions(self):
        return self.stored[NAME.name]["spec"]["leaseTransitions"]


class World:
    """Some electors over one API server; time passes when it is told to, each elector's own."""

    def __init__(self):
        self.leases = Leases()
        self.now = 1000.0
        self.moments = 0
        self.tasks = {}
        self.electors = {}
        self.sleepers = []

    def elector(self, name, leases=None):
        def wall():
            self.moments += 1
            return f"{name}-{self.moments}"

        async def sleep(seconds):
            wake = asyncio.Event()
            self.sleepers.append((self.now + seconds, wake))
            await wake.wait()

        found = Elector(
            leases or self.leases,
            NAME,
            identity=name,
            clock=lambda: self.now,
            wall=wall,
            sleep=sleep,
            spread=lambda low, high: 1.0,
        )
        self.electors[name] = found
        self.tasks[name] = asyncio.create_task(found.run())
        return found

    async def settle(self):
        for _ in range(20):
            await asyncio.sleep(0)

    async def passes(self, seconds):
        end = self.now + seconds
        await self.settle()
        while due := sorted((when for when, _ in self.sleepers if when <= end)):
            self.now = max(self.now, due[0])
            ready = [wake for when, wake in self.sleepers if when <= self.now]
            self.sleepers = [entry for entry in self.sleepers if entry[0] > self.now]
            for wake in ready:
                wake.set()
            await self.settle()
            self.never_two()
        self.now = max(self.now, end)
        await self.settle()
        self.never_two()

    def never_two(self):
        acting = [name for name, elector in self.electors.items() if elector.valid()]
        assert len(acting) <= 1, f"{acting} act at once"

    async def stop(self, name):
        self.tasks[name].cancel()
        await asyncio.wait({self.tasks[name]})


@pytest.fixture
async def world():
    world = World()
    yield world
    for task in world.tasks.values():
        task.cancel()
    if world.tasks:
        await asyncio.wait(set(world.tasks.values()))


async def test_one_of_two_leads_and_renews_with_one_request_each_time(world):
    a, b = world.elector("a"), world.elector("b")
    await world.passes(1)
    assert (a.valid(), b.valid()) == (True, False)
    assert a.elected.is_set()
    assert not b.elected.is_set()
    world.leases.requests.clear()
    await world.passes(60)
    assert a.valid()
    assert not b.valid()
    assert world.leases.requests.count("update") == 30
    assert world.leases.requests.count("get") == 30, "only the other one reads"
    assert world.leases.transitions == 0


async def test_a_lease_that_was_given_back_is_taken_with_the_next_look(world):
    a, b = world.elector("a"), world.elector("b")
    await world.passes(5)
    await world.stop("a")
    await a.release()
    assert world.leases.holder == ""
    assert not a.valid()
    assert a.time_left() == 0.0
    await world.passes(2)
    assert b.valid()
    assert world.leases.transitions == 1


async def test_a_dead_holder_is_followed_when_its_lease_runs_out(world):
    world.elector("a")
    b = world.elector("b")
    await world.passes(5)
    await world.stop("a")
    world.electors.pop("a")
    await world.passes(13)
    assert not b.valid()
    await world.passes(4)
    assert b.valid()


async def test_a_holder_that_was_frozen_acts_no_more_not_even_before_it_looks(world):
    frozen = world.elector("a")
    await world.passes(1)
    await world.stop("a")
    assert frozen.valid()
    world.now += 8.9
    assert frozen.valid()
    world.now += 0.2
    assert not frozen.valid()
    reason = await asyncio.wait_for(frozen.run(), 1)
    assert "was not renewed within 10 s" in reason
    assert world.leases.requests.count("update") == 0, "it does not even ask"


async def test_the_deadline_counts_from_when_a_renewal_was_sent(world):
    a = world.elector("a")
    await world.passes(1)

    async def slow(namespace, lease):
        world.now += 4.0  # It takes long, and it succeeds.
        return await Leases.update_lease(world.leases, namespace, lease)

    world.leases.update_lease = slow
    await world.passes(2)
    world.now += 5.9
    assert a.valid()
    world.now += 0.2
    assert not a.valid()


@pytest.mark.parametrize(
    "error", [ApiUnavailable("503", status=503), Forbidden("403: needs update", status=403), ApiUnavailable("429")]
)
async def test_errors_are_survived_until_the_deadline_and_not_beyond(world, error, caplog):
    a = world.elector("a")
    await world.passes(1)
    world.leases.faults["update"] = [error] * 3
    await world.passes(6.5)
    assert a.valid()
    await world.passes(20)
    assert a.valid()
    world.leases.faults["update"] = [error] * 100
    caplog.clear()
    await world.passes(7)
    assert not world.tasks["a"].done()
    await world.passes(2)
    assert not a.valid()
    assert str(error) in await world.tasks["a"]
    told = [line for line in caplog.records if line.levelno >= logging.WARNING]
    assert len(told) == 1, "an error is told once, not with each try"


async def test_a_conflict_is_answered_by_looking_again_at_once(world):
    a = world.elector("a")
    await world.passes(1)
    world.leases.edit(strategy="OldestEmulation")  # Somebody else's field moves the version.
    sent = len(world.leases.requests)
    await world.passes(2)
    assert world.leases.requests[sent:] == ["update", "get", "update"]
    assert a.valid()
    assert world.leases.stored[NAME.name]["spec"]["strategy"] == "OldestEmulation"
    world.leases.faults["update"] = [Conflict("409", status=409)] * 3
    await world.passes(2)
    assert a.valid()
    await world.passes(2)
    assert world.leases.faults["update"] == []
    assert a.valid()


async def test_a_lost_answer_does_not_lose_the_lease(world):
    a = world.elector("a")
    world.leases.lost_answers = 1
    await world.passes(1)
    assert not a.valid(), "what was not answered does not count"
    await world.passes(2)
    assert a.valid()
    world.leases.lost_answers = 2
    await world.passes(7)
    assert a.valid()
    assert world.leases.transitions == 0


async def test_a_lease_that_is_deleted_by_hand_is_made_anew_by_its_holder(world):
    a = world.elector("a")
    await world.passes(1)
    b = world.elector("b")
    await world.passes(1.5)  # b looked just now, and looks again before a renews.
    del world.leases.stored[NAME.name]
    await world.passes(1.4)
    await world.passes(30)
    assert a.valid()
    assert not b.valid()
    assert world.leases.holder == "a"


async def test_a_deleted_lease_of_a_dead_holder_is_made_anew_by_another(world):
    world.elector("a")
    b = world.elector("b")
    await world.passes(5)
    await world.stop("a")
    world.electors.pop("a")
    del world.leases.stored[NAME.name]
    await world.passes(12)
    assert not b.valid()
    await world.passes(5)
    assert b.valid()


async def test_a_lease_that_is_given_to_another_one_by_hand_is_lost_at_once(world):
    a = world.elector("a")
    await world.passes(1)
    world.leases.edit(holderIdentity="somebody")
    await world.passes(2)
    assert not a.valid()
    assert a.time_left() == 0.0, "helm has no time left: somebody may act already"
    assert "is held by somebody" in await world.tasks["a"]
    await a.release()
    assert world.leases.holder == "somebody"


async def test_clocks_of_other_machines_do_not_matter(world):
    world.elector("a")
    await world.passes(1)
    b = world.elector("b")
    for moment in ("2999-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000000Z", "", "2999-01-01T00:00:00.000000Z"):
        await world.stop("a")
        world.electors.pop("a", None)
        world.leases.edit(holderIdentity="c", renewTime=moment)
        await world.passes(10)
        assert not b.valid()
    await world.passes(8)
    assert b.valid()


async def test_a_hung_api_server_does_not_hide_the_deadline(world):
    terms = Terms(duration=0.6, deadline=0.4, retry=0.05)
    a = Elector(world.leases, NAME, identity="a", terms=terms)
    task = world.tasks["a"] = asyncio.create_task(a.run())
    await asyncio.wait_for(a.elected.wait(), 1)
    world.leases.hang = True
    started = asyncio.get_running_loop().time()
    reason = await asyncio.wait_for(task, 2)
    assert asyncio.get_running_loop().time() - started < 0.8
    assert "did not answer in time" in reason


async def test_no_permission_and_no_namespace_are_told_and_heal(world, caplog):
    caplog.set_level(logging.INFO)
    a = world.elector("a")
    world.leases.faults["get"] = [Forbidden('leases is forbidden: needs verb "get"', status=403)] * 3
    world.leases.faults["create"] = [NotFound("namespaces ops not found", status=404)] * 2
    await world.passes(9)
    assert not a.valid()
    assert not world.tasks["a"].done(), "who never led does not end"
    assert caplog.text.count("needs verb") == 1
    assert caplog.text.count("namespaces ops not found") == 1
    await world.passes(2)
    assert a.valid()


async def test_who_leads_is_told_once(world, caplog):
    caplog.set_level(logging.INFO)
    world.elector("a")
    await world.passes(1)
    world.elector("b")
    await world.passes(60)
    assert caplog.text.count("a leads: this process") == 1
    assert [line.getMessage() for line in caplog.records].count("a leads") == 1


async def test_giving_back_yields_to_a_late_renewal_and_gives_up_on_errors(world, caplog):
    a = world.elector("a")
    await world.passes(1)
    await world.stop("a")
    world.leases.faults["update"] = [Conflict("409", status=409)]
    await a.release()
    assert world.leases.holder == ""

    b = world.elector("b")
    await world.passes(2)
    await world.stop("b")
    world.leases.faults["get"] = [ApiUnavailable("503", status=503)]
    await b.release()
    assert world.leases.holder == "b"
    assert "runs out by itself" in caplog.text
    assert not b.valid(), "whoever gave it back acts no more, told or not"


async def test_who_does_not_lead_gives_nothing_back(world):
    world.elector("a")
    b = world.elector("b")
    await world.passes(1)
    await b.release()
    assert world.leases.holder == "a"


async def test_a_lease_that_another_one_got_meanwhile_is_not_given_back(world):
    a = world.elector("a")
    await world.passes(1)
    await world.stop("a")
    world.leases.edit(holderIdentity="somebody")
    await a.release()
    assert world.leases.holder == "somebody"


async def test_helm_is_to_be_dead_before_another_one_can_act(world):
    a = world.elector("a")
    await world.passes(1)
    await world.stop("a")
    sent = 1000.0
    for passed, left in ((0.0, 14.0), (10.0, 4.0), (14.0, 0.0), (60.0, 0.0)):
        world.now = sent + passed
        assert a.time_left() == pytest.approx(left)


@pytest.mark.parametrize("seed", range(30))
async def test_never_two_act_at_once_whatever_fails(world, seed):
    """Three electors, random errors, freezes, deletions and edits; `never_two` looks after each step."""
    import random

    dice = random.Random(seed)
    led = set()
    names = iter(f"e{n}" for n in range(1000))
    alive = [next(names) for _ in range(3)]
    for name in alive:
        world.elector(name)

    async def newcomer():
        while NAME.name not in world.leases.stored:
            await world.passes(1)
        alive.append(next(names))
        world.elector(alive[-1])

    await world.passes(5)
    for _ in range(60):
        match dice.randrange(9):
            case 0:
                verb = dice.choice(["get", "create", "update"])
                world.leases.faults[verb] += [ApiUnavailable("503")] * dice.randrange(1, 12)
            case 1:
                world.leases.faults["update"] += [Conflict("409")] * dice.randrange(1, 5)
            case 2:
                world.leases.lost_answers += dice.randrange(1, 4)
            case 3 if all(elector._observed for elector in world.electors.values()):
                # Not where somebody has not looked yet: a newcomer cannot know that there was a Lease.
                world.leases.stored.pop(NAME.name, None)
            case 4:  # One dies.
                victim = alive.pop(dice.randrange(len(alive)))
                await world.stop(victim)
                world.electors.pop(victim)
                await newcomer()
            case 5:  # One ends in order.
                victim = alive.pop(dice.randrange(len(alive)))
                await world.stop(victim)
                await world.electors.pop(victim).release()
                await newcomer()
            case _:
                await world.passes(dice.uniform(0.1, 8.0))
        for name in [name for name in alive if world.tasks[name].done()]:  # Its kubelet starts it again.
            alive.remove(name)
            world.electors.pop(name)
            await newcomer()
        led |= {name for name, elector in world.electors.items() if elector.valid()}
    world.leases.faults = {"get": [], "create": [], "update": []}
    world.leases.lost_answers = 0
    await world.passes(40)
    assert any(elector.valid() for elector in world.electors.values()), "in the end somebody leads"
    assert led


def test_a_lease_is_plain_json():
    body = written({"metadata": {"name": "x"}}, Step.CREATE, identity="a", moment="now", terms=Terms(duration=1.5))
    assert json.loads(json.dumps(body)) == body
    assert body["spec"]["leaseDurationSeconds"] == 2
