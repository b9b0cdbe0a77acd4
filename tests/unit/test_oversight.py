"""What is remembered of objects while they are looked at: no change may be lost."""

from types import SimpleNamespace
from typing import Any

import pytest

from helm_operator.drift import Drift, as_helm_applies, overlaid
from helm_operator.drift_policy import DriftMode, DriftPolicy, IgnoreRule
from helm_operator.errors import ApiError, ApiUnavailable, Forbidden, NotFound, RetryableError
from helm_operator.kube import Resource
from helm_operator.reconciler.oversight import Oversight
from helm_operator.release import ObjectRef, ReleaseKey
from helm_operator.watchers import Dependents

WEB = ReleaseKey("shop", "web")
ROOM = ObjectRef("v1", "Namespace", "", "room")
CHAIR = ObjectRef("v1", "ConfigMap", "room", "chair")


class World:
    """The objects of one release on a server of our own making; unknown calls fail."""

    def __init__(self) -> None:
        self.objects: dict[ObjectRef, dict[str, Any]] = {}
        self.meanwhile: Any = lambda: None
        self.mode = DriftMode.CORRECT
        self.ignore: tuple[IgnoreRule, ...] = ()
        self.now = 1000.0
        self.dependents = Dependents(self, lambda key: None, manager="helm", health_changed=lambda key: None)  # type: ignore[arg-type]
        self.told: list[str] = []
        self.refusal: ApiError | None = None
        self.requests: list[str] = []
        content = SimpleNamespace(objects=tuple(_item(ref) for ref in (CHAIR, ROOM)))

        async def read(p: Any, revision: int) -> Any:
            return content

        async def repaired(resource: Any, what: Any) -> None:
            self.told += [str(each.ref) for each in what]

        self.oversight = Oversight(
            sight=SimpleNamespace(read=read),  # type: ignore[arg-type]
            kube=self,  # type: ignore[arg-type]
            manager="helm",
            resources=SimpleNamespace(),  # type: ignore[arg-type]
            dependents=self.dependents,
            reporter=SimpleNamespace(repaired=repaired),  # type: ignore[arg-type]
            period=lambda p: 60.0,
            clock=lambda: self.now,
        )

    async def resource(self, api_version: str, kind: str) -> Resource:
        return Resource("", "v1", kind.lower() + "s", kind, namespaced=kind != "Namespace")

    async def get_object(self, ref: ObjectRef) -> dict[str, Any]:
        self.meanwhile()
        if ref not in self.objects:
            raise NotFound(f"{ref} is not there", status=404)
        return self.objects[ref]

    async def apply_object(
        self, ref: ObjectRef, item: dict[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        self.requests.append("dry run" if dry_run else "apply")
        if ref == CHAIR and ROOM not in self.objects:
            raise NotFound('namespace "room" is not there', status=404)
        result = overlaid(self.objects.get(ref, {}), item)
        if not dry_run and self.refusal is not None:
            raise self.refusal
        if not dry_run:
            self.objects[ref] = result
        return result

    def edit(self, ref: ObjectRef, **data: str) -> None:
        """Change an object as somebody else would, with a watch that tells of it."""
        live = self.objects[ref]
        self.objects[ref] = {**live, "data": {**live["data"], **data}}
        self.dependents.suspect(WEB, ref)

    async def installed(self, mode: DriftMode) -> None:
        """Have both objects as the manifest says."""
        self.mode = mode
        for ref in (ROOM, CHAIR):
            self.objects[ref] = as_helm_applies(_item(ref), ref, WEB)
        self.oversight.made_by_us(self.pass_())

    async def look(self) -> Drift | None:
        """Do what a pass does where something is to be looked at, and return what it tells."""
        p = self.pass_()
        if self.oversight.suspects(p):
            await self.oversight.repair(p)
        return self.oversight.drift(p)

    def pass_(self) -> Any:
        outcome = SimpleNamespace(records=(SimpleNamespace(revision=1),), drifted=False, error=None)
        return SimpleNamespace(
            key=("widgets", "shop", "web"),
            release=WEB,
            resource=SimpleNamespace(uid="u"),
            outcome=outcome,
            kind=SimpleNamespace(watch=SimpleNamespace(drift=DriftPolicy(self.mode, self.ignore))),
        )


def _item(ref: ObjectRef) -> dict[str, Any]:
    meta = {"name": ref.name, "namespace": ref.namespace}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": meta, "data": {"colour": "red", "size": "s"}}


@pytest.fixture
def world() -> World:
    return World()


async def test_what_changes_while_it_is_compared_is_suspect_anew(world: World) -> None:
    world.objects[ROOM] = {**_item(ROOM), "metadata": {"name": "room", "deletionTimestamp": "now"}}
    world.dependents.suspect(WEB, ROOM)
    world.meanwhile = lambda: world.dependents.suspect(WEB, ROOM)  # It is gone just after we have read it.

    await world.oversight.repair(world.pass_())
    assert world.dependents.suspects(WEB) == {ROOM}

    world.meanwhile = lambda: None
    del world.objects[ROOM]
    await world.oversight.repair(world.pass_())
    assert world.dependents.suspects(WEB) == frozenset()
    assert ROOM in world.objects


async def test_what_could_not_be_compared_stays_suspect(world: World) -> None:
    def fail() -> None:
        raise ApiUnavailable("the API server is gone", status=503)

    world.dependents.suspect(WEB, ROOM)
    world.meanwhile = fail
    with pytest.raises(Exception, match="could not be compared"):
        await world.oversight.repair(world.pass_())
    assert world.dependents.suspects(WEB) == {ROOM}


async def test_a_namespace_comes_back_before_what_lives_in_it(world: World) -> None:
    for ref in (CHAIR, ROOM):
        world.dependents.suspect(WEB, ref)
    await world.oversight.repair(world.pass_())
    assert set(world.objects) == {ROOM, CHAIR}
    assert world.told == [str(ROOM), str(CHAIR)]


async def test_warn_tells_and_writes_nothing(world: World) -> None:
    await world.installed(DriftMode.WARN)
    world.edit(CHAIR, colour="blue")
    drift = await world.look()
    assert drift is not None
    assert "data.colour" in drift.message
    assert (world.requests, world.told) == (["dry run"], [])


@pytest.mark.parametrize("mode", [DriftMode.WARN, DriftMode.CORRECT])
async def test_only_what_is_left_as_it_differs_is_followed(world: World, mode: DriftMode) -> None:
    await world.installed(mode)
    world.edit(CHAIR, colour="blue")
    await world.look()
    assert world.dependents.followed(WEB, CHAIR) is (mode is DriftMode.WARN)
    assert not world.dependents.followed(WEB, ROOM)
    world.now += 5
    world.edit(CHAIR, colour="red")
    await world.look()
    assert not world.dependents.followed(WEB, CHAIR)


async def test_warn_compares_what_differs_at_most_every_few_seconds(world: World) -> None:
    await world.installed(DriftMode.WARN)
    world.edit(CHAIR, colour="blue")
    first = await world.look()
    for number in range(50):
        world.now += 0.1
        world.edit(CHAIR, colour=f"blue {number}")
        assert await world.look() == first
    assert set(world.requests) == {"dry run"}
    assert len(world.requests) <= 2
    world.edit(CHAIR, colour="red")
    assert world.oversight.until_due(world.pass_().key, 60.0) <= 5.0
    world.now += 5.0
    assert await world.look() == Drift()


async def test_warn_holds_no_upgrade_up(world: World) -> None:
    await world.installed(DriftMode.WARN)
    world.edit(CHAIR, colour="blue")
    await world.look()
    assert world.dependents.suspects(WEB) == frozenset()
    await world.oversight.mend(world.pass_(), 1)
    assert world.objects[CHAIR]["data"]["colour"] == "red"
    assert await world.look() == Drift()


async def test_what_an_upgrade_wrote_differs_no_more(world: World) -> None:
    await world.installed(DriftMode.WARN)
    world.edit(CHAIR, colour="blue")
    await world.look()
    world.oversight.made_by_us(world.pass_())
    assert await world.look() == Drift()


async def test_off_looks_at_nothing_and_mends_before_an_upgrade(world: World) -> None:
    await world.installed(DriftMode.OFF)
    world.edit(CHAIR, colour="blue")
    assert world.oversight.suspects(world.pass_()) == frozenset()
    assert await world.look() == Drift()
    assert world.requests == []
    await world.oversight.mend(world.pass_(), 1)
    assert world.objects[CHAIR]["data"]["colour"] == "red"


async def test_an_ignored_field_is_neither_told_nor_written(world: World) -> None:
    world.ignore = (IgnoreRule((("data", "colour"),)),)
    await world.installed(DriftMode.CORRECT)
    world.edit(CHAIR, colour="blue")
    await world.look()
    assert "apply" not in world.requests
    world.edit(CHAIR, size="l")
    await world.look()
    assert world.objects[CHAIR]["data"] == {"colour": "blue", "size": "s"}


async def test_an_object_that_is_ignored_as_a_whole_is_only_made_again(world: World) -> None:
    world.ignore = (IgnoreRule(((),)),)
    await world.installed(DriftMode.CORRECT)
    world.edit(CHAIR, colour="blue")
    await world.look()
    assert world.requests == []
    del world.objects[CHAIR]
    world.dependents.suspect(WEB, CHAIR)
    await world.look()
    assert world.objects[CHAIR]["data"]["colour"] == "red"


async def test_a_fight_is_told_fought_with_growing_pauses_and_over_once_the_other_one_stops(world: World) -> None:
    await world.installed(DriftMode.CORRECT)
    for _ in range(4):
        world.edit(CHAIR, colour="blue")
        assert await world.look() == Drift()
    world.edit(CHAIR, colour="blue")
    told = await world.look()
    assert told is not None
    assert told.reason == "DriftContested"

    # An hour in which the other one answers every correction at once.
    corrections, started = len(world.told), world.now
    while world.now < started + 3600:
        world.edit(CHAIR, colour="blue")
        assert world.oversight.suspects(world.pass_()) == frozenset()
        world.now += max(world.oversight.until_due(world.pass_().key, 60.0), 0.01)
        assert await world.look() == told
    assert 8 <= len(world.told) - corrections <= 16
    assert world.objects[CHAIR]["data"]["colour"] == "blue"

    # It stops: the last change is undone, and ten minutes later all is forgotten.
    world.now += 480
    assert await world.look() == told
    assert world.objects[CHAIR]["data"]["colour"] == "red"
    corrected_at = world.now
    while await world.look() == told:
        world.now += max(world.oversight.until_due(world.pass_().key, 60.0), 0.01)
    assert 600 <= world.now - corrected_at < 601
    world.edit(CHAIR, colour="blue")
    assert await world.look() == Drift()
    assert world.objects[CHAIR]["data"]["colour"] == "red"


async def test_a_fight_over_one_object_keeps_no_other_one_from_being_put_right(world: World) -> None:
    await world.installed(DriftMode.CORRECT)
    for _ in range(6):
        world.edit(CHAIR, colour="blue")
        await world.look()
    world.edit(ROOM, colour="blue")
    await world.look()
    assert world.objects[ROOM]["data"]["colour"] == "red"
    assert world.objects[CHAIR]["data"]["colour"] == "blue"


async def test_somebody_elses_object_of_the_same_name_is_told_as_it_is(world: World) -> None:
    await world.installed(DriftMode.WARN)
    world.objects[CHAIR] = {**_item(CHAIR), "metadata": {"name": "chair", "namespace": "room"}}
    world.dependents.suspect(WEB, CHAIR)
    drift = await world.look()
    assert drift is not None
    assert 'ConfigMap "chair" was made by somebody else' in drift.message


async def test_what_could_not_be_compared_differs_as_it_did_before(world: World) -> None:
    def fail() -> None:
        raise ApiUnavailable("the API server is gone", status=503)

    await world.installed(DriftMode.WARN)
    world.edit(CHAIR, colour="blue")
    told = await world.look()
    world.now += 5
    world.edit(CHAIR, colour="red")
    world.meanwhile = fail
    with pytest.raises(Exception, match="could not be compared"):
        await world.look()
    assert world.oversight.drift(world.pass_()) == told


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (Forbidden("no", status=403), "Forbidden"),
        (ApiUnavailable("failed calling webhook", status=500), "ReconcileError"),
        (ApiUnavailable("not now", status=503), "ApiUnavailable"),
        (ApiUnavailable("nobody answered"), "ApiUnavailable"),
        (ApiError("denied", status=400), "ReconcileError"),
    ],
)
async def test_a_refused_correction_tells_why(world: World, refusal: ApiError, reason: str) -> None:
    await world.installed(DriftMode.CORRECT)
    world.edit(CHAIR, colour="blue")
    world.refusal = refusal
    p = world.pass_()
    with pytest.raises(RetryableError, match="could not be put right") as caught:
        await world.oversight.repair(p)
    assert (caught.value.reason, p.outcome.drifted) == (reason, True)
    world.refusal = None
    world.now += 60
    assert await world.look() == Drift()
    assert world.objects[CHAIR]["data"]["colour"] == "red"
