"""What one pass knows, and what it asks of the queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from helm_operator.annotations import Wishes
from helm_operator.decision import Action, Decision
from helm_operator.kube import Resource
from helm_operator.release import CustomResource, DesiredRelease, ReleaseKey
from helm_operator.served import ServedKind
from helm_operator.status import Outcome
from helm_operator.watchers import ResourceKey


@dataclass(frozen=True, slots=True)
class Next:
    """What the queue shall do with the key after a pass."""

    act: bool = False
    """The pass stopped before a Helm action: come again in the lane that may run Helm."""
    urgent: bool = False
    """Whether somebody waits for that action: an edit or a deletion."""
    after: float | None = None
    """Seconds until the next pass, whatever happens before; None: only when something happens."""


@dataclass(slots=True)
class Pass:
    """What one pass knows."""

    key: ResourceKey
    resource: CustomResource
    kind: ServedKind
    wishes: Wishes
    api: Resource
    release: ReleaseKey
    outcome: Outcome
    chart_token: object
    health_version: int
    may_act: bool
    fresh: bool = False
    """Whether the records come from the API server, not from the cache."""
    examined: bool | None = None
    forgiven: bool = False
    """Whether past failures are to be forgotten, by annotation."""
    again: float | None = None
    """Seconds after which a step wants another pass."""
    decision: Decision = field(default_factory=lambda: Decision(Action.NOTHING, "not decided yet"))
    secrets: set[str] = field(default_factory=set)
    """Texts that must not be shown to anybody."""

    @property
    def desired(self) -> DesiredRelease:
        if self.outcome.desired is None:
            raise RuntimeError("nothing is desired")  # Only deletion has no desired release.
        return self.outcome.desired


class Overtaken(Exception):
    """The custom resource changed under the pass: the next one, due at once, has the newest wish."""


def same_wish(one: CustomResource, other: CustomResource) -> bool:
    """Return whether both ask for the same: the same object, equally alive, with the same spec."""
    return one.uid == other.uid and one.deleting == other.deleting and one.spec == other.spec
