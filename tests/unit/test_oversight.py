"""What is remembered of objects while they are looked at: no change may be lost."""

from types import SimpleNamespace
from typing import Any

import pytest

from helm_operator.drift_policy import DriftMode, DriftPolicy
from helm_operator.errors import ApiUnavailable, NotFound
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
        self.now = 1000.0
        self.dependents = Dependents(self, lambda key: None, manager="helm", health_changed=lambda key: None)  # type: ignore[arg-type]
        self.told: list[str] = []
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

    async def apply_object(self, ref: ObjectRef, item: dict[str, Any], **_: Any) -> None:
        if ref == CHAIR and ROOM not in self.objects:
            raise NotFound('namespace "room" is not there', status=404)
        self.objects[ref] = item

    def pass_(self) -> Any:
        outcome = SimpleNamespace(records=(SimpleNamespace(revision=1),), drifted=False, error=None)
        return SimpleNamespace(
            key=("widgets", "shop", "web"),
            release=WEB,
            resource=SimpleNamespace(uid="u"),
            outcome=outcome,
            kind=SimpleNamespace(watch=SimpleNamespace(drift=DriftPolicy(self.mode))),
        )


def _item(ref: ObjectRef) -> dict[str, Any]:
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {"name": ref.name, "namespace": ref.namespace}}


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
