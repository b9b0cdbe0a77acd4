"""Objects of a release: what Helm would apply, and where the live object differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from helm_operator.contest import FEW, WINDOW, Contest
from helm_operator.drift_policy import Pointer
from helm_operator.release import DOMAIN, Json, ObjectRef, ReleaseKey

_SERVER_OWNED: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}
)
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "Helm")
RELEASE_NAME: Final = "meta.helm.sh/release-name"
RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"

ANNOTATION: Final = f"{DOMAIN}/drift"
"""`disabled` on an object of a release: it is neither compared nor put right; made again it is."""

DETECTED: Final = "DriftDetected"
"""Why a condition is True: objects differ, and nothing is done about it."""

_MOST_PATHS: Final = 5
_MOST_OBJECTS: Final = 5
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is not, or was not, as the manifest says; never a value."""

    ref: ObjectRef
    paths: tuple[str, ...] = ()
    """Which fields differ; empty where the object is missing."""
    foreign: bool = False
    """Whether somebody else made an object of that name."""

    @property
    def where(self) -> str:
        """The paths, in words."""
        more = len(self.paths) - _MOST_PATHS
        return ", ".join(self.paths[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")

    @property
    def corrected(self) -> str:
        """A sentence for after the correction."""
        if not self.paths:
            return f"{self.ref} was missing and is there again"
        return f"{self.ref} was changed and is as before: {self.where}"

    def __str__(self) -> str:
        if self.foreign:
            return f"{self.ref} was made by somebody else"
        return f"{self.ref} ({self.where})" if self.paths else f"{self.ref} is missing"


@dataclass(frozen=True, slots=True)
class Drift:
    """What a condition tells of all objects of a release; without a reason nothing is to be told."""

    reason: str = ""
    message: str = ""


def detected(found: Iterable[Difference]) -> Drift:
    """Return what is told of objects that differ and are left as they are."""
    if not (texts := _listed(found)):
        return Drift()
    return Drift(
        DETECTED,
        f"objects are not as the release has them: {texts}. Nothing is written, as drift.mode is warn in watches.yaml. "
        "Undo the changes, or take them up into the spec; any upgrade of the release writes these objects as well",
    )


def contested(contests: Mapping[ObjectRef, Contest]) -> Drift:
    """Return what is told of objects that somebody else changes again and again."""
    fights = [Difference(ref, contest.paths) for ref, contest in contests.items() if contest.contested]
    if not fights:
        return Drift()
    texts = _listed(fights, missing="is deleted")
    return Drift(
        "DriftContested",
        f"somebody else changes objects of the release again and again: {texts}. They were put right {FEW} times "
        f"within {WINDOW / 60:.0f} minutes, and are put right with growing pauses from now on. Find out by "
        "`kubectl get --show-managed-fields -o yaml` who it is; stop that, leave the fields out of the chart, or name "
        "them in drift.ignore of watches.yaml",
    )


def _listed(found: Iterable[Difference], missing: str = "is missing") -> str:
    differences = sorted(found, key=lambda one: one.ref)
    texts = [str(one) if one.paths or one.foreign else f"{one.ref} {missing}" for one in differences[:_MOST_OBJECTS]]
    more = len(differences) - _MOST_OBJECTS
    return "; ".join(texts) + (f"; and {more} more object{'s' if more > 1 else ''}" if more > 0 else "")


def left_alone(meta: Mapping[str, Any]) -> bool:
    """Return whether an object says of itself that it is not to be compared."""
    return (meta.get("annotations") or {}).get(ANNOTATION) == "disabled"


def with_ignored(item: Json, live: Json, pointers: Iterable[Pointer]) -> Json:
    """Return an object of the manifest with the live values of the ignored fields, where the manifest sets them.

    A field that the live object lacks is left out. Applied, such an object changes no ignored field; without the
    fields, a server-side apply would delete those that only Helm owns.
    """
    for pointer in pointers:
        item = _kept(item, live, pointer)
        if item.get("kind") == "Secret" and pointer[:1] == ("data",):
            item = _kept(item, live, ("stringData", *pointer[1:]))  # It is stored as data.
    return item


def object_ref(item: Mapping[str, Any], namespace: str) -> ObjectRef:
    """Return where an object of a manifest lives; `namespace` is that of a namespaced kind."""
    return ObjectRef(
        str(item.get("apiVersion", "")), str(item.get("kind", "")), namespace, str(item["metadata"]["name"])
    )


def as_helm_applies(item: Mapping[str, Any], ref: ObjectRef, key: ReleaseKey) -> Json:
    """Return an object of the manifest with the marks that Helm adds when it applies it.

    Without them, a server-side apply under Helm's field manager would take them away.
    Source: helm.sh/helm/v4/pkg/action/validate.go.
    """
    meta = dict(item["metadata"])
    meta["labels"] = {**(meta.get("labels") or {}), MANAGED_BY[0]: MANAGED_BY[1]}
    meta["annotations"] = {
        **(meta.get("annotations") or {}),
        RELEASE_NAME: key.name,
        RELEASE_NAMESPACE: key.namespace,
    }
    if ref.namespace:
        meta["namespace"] = ref.namespace
    # The cluster's word; Helm drops it as well.
    return {name: value for name, value in item.items() if name != "status"} | {"metadata": meta}


def overlaid(live: Any, wanted: Any) -> Any:
    """Return a live object with the manifest's fields in it: maps are merged, all else is the manifest's.

    What the API server keeps for itself is left out, but for the resourceVersion.
    """
    if not isinstance(live, Mapping) or not isinstance(wanted, Mapping):
        return wanted
    merged = {name: value for name, value in live.items() if name not in ("status", "managedFields")}
    return merged | {name: overlaid(live.get(name), value) for name, value in wanted.items()}


def differences(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the paths at which `wanted` (a dry run's answer) differs from `live`; never a value."""
    return list(_differences(_comparable(live), _comparable(wanted), ""))


def is_of_release(live: Mapping[str, Any], key: ReleaseKey) -> bool:
    """Return whether an object says, by Helm's annotations, that it is of this release."""
    annotations = live["metadata"].get("annotations") or {}
    return (annotations.get(RELEASE_NAMESPACE), annotations.get(RELEASE_NAME)) == (key.namespace, key.name)


def ours_to_repair(live: Mapping[str, Any], key: ReleaseKey, manager: str) -> bool:
    """Return whether an object is still the release's, even if its marks were taken off.

    An object without Helm's marks that Helm never wrote is somebody else's.
    """
    meta = live["metadata"]
    if RELEASE_NAME in (meta.get("annotations") or {}):
        return is_of_release(live, key)
    return any(entry.get("manager") == manager for entry in meta.get("managedFields") or ())


def comes_and_goes(item: Mapping[str, Any]) -> bool:
    """Return whether an object may vanish as planned: a Job that is deleted once it is done.

    Creating it again would run it again.
    """
    return item.get("kind") == "Job" and (item.get("spec") or {}).get("ttlSecondsAfterFinished") is not None


def _kept(wanted: Any, live: Any, pointer: Pointer) -> Any:
    """Return `wanted` with what `live` has at `pointer`; `_MISSING` where it has nothing."""
    if not pointer:
        return _as_live(wanted, live)
    name, rest = pointer[0], pointer[1:]
    if isinstance(wanted, Mapping) and name in wanted:
        below = live.get(name, _MISSING) if isinstance(live, Mapping) else _MISSING
        kept = _kept(wanted[name], below, rest)
        return {
            key: kept if key == name else value for key, value in wanted.items() if key != name or kept is not _MISSING
        }
    if isinstance(wanted, list) and name.isdecimal() and int(name) < len(wanted):
        index = int(name)
        below = live[index] if isinstance(live, list) and index < len(live) else _MISSING
        kept = _kept(wanted[index], below, rest)
        return [*wanted[:index], *(() if kept is _MISSING else (kept,)), *wanted[index + 1 :]]
    return wanted


def _as_live(wanted: Any, live: Any) -> Any:
    """Return the live values of the fields of `wanted`: what it does not set stays with whoever set it."""
    if not isinstance(wanted, Mapping) or not isinstance(live, Mapping):
        return live
    return {name: _as_live(value, live[name]) for name, value in wanted.items() if name in live}


def _comparable(item: Mapping[str, Any]) -> Json:
    meta = {name: value for name, value in item["metadata"].items() if name not in _SERVER_OWNED}
    return {name: value for name, value in item.items() if name != "status"} | {"metadata": meta}


def _differences(live: Any, wanted: Any, path: str) -> Iterable[str]:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for name in sorted({*live, *wanted}):
            yield from _differences(live.get(name), wanted.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for index, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif live != wanted:
        yield path
