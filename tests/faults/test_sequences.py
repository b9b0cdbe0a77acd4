"""Random sequences of edits, deletions, other hands and faults: after each, the world must come to rest as it should.

A sequence is its seed: the steps, their order, and their pauses come from it alone. FAULT_SEED=n plays one again;
FAULT_SEQUENCES says how many there are, FAULT_FIRST from which seed on, FAULT_REPORTS names a folder for what failed.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.world import KINDS, World
from tools.localcluster import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(420)]

DEFAULT = 12
"""Sequences of `make test`; with `make soak` there are many more."""
PATIENCE = 120.0
"""Seconds that the world may take to come to rest: a dead person's helm is respected for 50 of them."""

NAMES = ("ant", "bee", "cat")
COLOURS = ("red", "green", "blue", "grey")
SPOILT = ("failed", "superseded", "pending-upgrade", "uninstalling", "pending-rollback")


def _seeds():
    if os.environ.get("FAULT_SEED"):
        return [int(os.environ["FAULT_SEED"])]
    first = int(os.environ.get("FAULT_FIRST") or 1)
    return range(first, first + int(os.environ.get("FAULT_SEQUENCES") or DEFAULT))


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def world(plane, helm4, tmp_path_factory):
    world = World(plane, helm4, tmp_path_factory.mktemp("world"))
    yield world
    world.close()


@pytest.mark.parametrize("seed", _seeds())
def test_after_any_sequence_of_faults_the_world_is_as_the_custom_resources_say(world, seed, record_property):
    world.begin()
    try:
        for step in plan(seed):
            step(world)
        world.settle(PATIENCE)
        for name in NAMES:
            world.remove(name)
        world.settle(PATIENCE)
    except BaseException as error:
        story = "\n".join(
            [
                f"seed {seed} failed; play it again with FAULT_SEED={seed} make test-faults",
                str(error),
                *world.steps,
                "--- the operators' log",
                world.lab.log[-60000:],
            ]
        )
        print(story)
        if os.environ.get("FAULT_REPORTS"):  # A long run tells of a failure before it has ended.
            Path(os.environ["FAULT_REPORTS"], f"seed-{seed}.log").write_text(story)
        _clean_up(world)
        raise
    record_property("faults", dict(world.faults))


def _clean_up(world):
    """Give the next sequence an empty stage."""
    world.join()
    world.end_helm()
    for secret in world.lab.api.items(world.lab.core("secrets"), labelSelector="owner=helm"):
        world.lab.api.delete(world.lab.core("secrets", secret["metadata"]["name"]))
    for body in world.lab.api.items(world.lab.path()):
        name = body["metadata"]["name"]
        world.lab.delete(name)
        if world.lab.cr(name) is not None:
            world.lab.api.patch(world.lab.path(name), {"metadata": {"finalizers": None}})
    for kind in KINDS.values():
        for item in world.lab.api.items(world.lab.core(kind), labelSelector="faults"):
            world.lab.api.delete(world.lab.core(kind, item["metadata"]["name"]))
    world.wanted.clear()
    world._next_operator(0.0)


def plan(seed):
    """Return the steps of a sequence: functions of the world."""
    dice = random.Random(seed)
    for name in NAMES[: dice.randint(2, 3)]:
        yield _put(dice, name)
    # At most one of these a sequence, as each costs seconds.
    rare = [_api_kill(dice), _api_hang(dice), _by_hand_and_killed(dice), None]
    chosen = dice.choices(rare, weights=(3, 4, 1, 3))[0]
    count = dice.randint(7, 12)
    at = dice.randrange(count)
    for number in range(count):
        if number == at and chosen is not None:
            yield chosen
        yield dice.choices(_MAKERS, weights=_WEIGHTS)[0](dice)
        if dice.random() < 0.5:
            yield _pause(dice)


def _spec(dice):
    spec = {"colour": dice.choice(COLOURS), "number": dice.randrange(1000), "port": 8080}
    kind = dice.random()
    if kind < 0.12:
        spec["port"] = 0
    elif kind < 0.18:
        spec["broken"] = True
    elif kind < 0.24:
        spec["colour"] = 7
    elif kind < 0.45:
        spec["slow"] = True
    return spec


def _name(dice):
    return dice.choice(NAMES)


def _put(dice, name=None):
    name, spec = name or _name(dice), _spec(dice)
    return lambda world: world.put(name, spec)


def _many_edits(dice):
    name, specs = _name(dice), [_spec(dice) for _ in range(dice.randint(2, 6))]

    def step(world):
        for spec in specs:
            world.put(name, spec)

    return step


def _remove(dice):
    name = _name(dice)
    return lambda world: world.remove(name)


def _remove_and_put(dice):
    name, spec = _name(dice), _spec(dice)

    def step(world):
        world.remove(name)
        world.put(name, spec)

    return step


def _by_hand(dice):
    verb, name = dice.choice(("upgrade", "upgrade", "rollback", "uninstall")), _name(dice)
    return lambda world: world.hand_helm(verb, name)


def _by_hand_and_killed(dice):
    verb, name, after = dice.choice(("upgrade", "rollback")), _name(dice), round(dice.uniform(0.05, 0.5), 2)
    return lambda world: world.hand_helm(verb, name, kill_after=after)


def _object(dice):
    name, what, delete = _name(dice), dice.choice(list(KINDS)), dice.random() < 0.5
    return lambda world: world.delete_object(name, what) if delete else world.edit_object(name, what)


def _records(dice):
    name, which = _name(dice), dice.choice(("newest", "oldest", "all"))
    return lambda world: world.delete_records(name, which)


def _spoil(dice):
    name, state = _name(dice), dice.choice(SPOILT)
    return lambda world: world.spoil_record(name, state)


def _kill_operator(dice):
    pause = round(dice.uniform(0, 1.5), 2)
    return lambda world: world.kill_operator(pause)


def _stop_operator(dice):
    pause = round(dice.uniform(0, 0.5), 2)
    return lambda world: world.stop_operator(pause)


def _kill_after_success(dice):
    name, spec = _name(dice), {"colour": dice.choice(COLOURS), "number": dice.randrange(1000), "port": 8080}
    return lambda world: world.kill_operator_after_success(name, spec)


def _kill_helm(dice):
    name, spec, after = _name(dice), _spec(dice), round(dice.uniform(0, 0.5), 2)

    def step(world):
        world.put(name, spec)
        world.kill_helm(after)

    return step


def _freeze(dice):
    seconds = round(dice.uniform(0.3, 2), 2)
    return lambda world: world.freeze_operator(seconds)


def _api_kill(dice):
    seconds = round(dice.uniform(0, 2), 2)
    return lambda world: world.kill_apiserver(seconds)


def _api_hang(dice):
    seconds = round(dice.uniform(1, 5), 2)
    return lambda world: world.hang_apiserver(seconds)


def _pause(dice):
    seconds = round(dice.uniform(0, 0.8), 2)

    return lambda _world: time.sleep(seconds)


_CHANCES = (
    (_put, 20),
    (_many_edits, 4),
    (_remove, 8),
    (_remove_and_put, 4),
    (_by_hand, 8),
    (_object, 12),
    (_records, 5),
    (_spoil, 5),
    (_kill_operator, 5),
    (_stop_operator, 2),
    (_kill_after_success, 5),
    (_kill_helm, 8),
    (_freeze, 3),
)
_MAKERS = [maker for maker, _ in _CHANCES]
_WEIGHTS = [weight for _, weight in _CHANCES]
