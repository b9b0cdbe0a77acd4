"""Objects of a release: what Helm would apply, and where the live object differs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from helm_operator.release import Json, ObjectRef, ReleaseKey

_SERVER_OWNED: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}
)
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "Helm")
RELEASE_NAME: Final = "meta.helm.sh/release-name"
RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"


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
