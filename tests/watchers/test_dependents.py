"""Which objects of releases become suspect, and which do not."""

import asyncio
import copy
import logging
import subprocess
import uuid
from pathlib import Path

import pytest

from helm_operator.errors import ApiUnavailable, Forbidden, Gone, NotFound
from helm_operator.kube import Resource, WatchEvent
from helm_operator.release import ObjectRef, ReleaseKey
from helm_operator.watchers import Dependents, dependents
from helm_operator.watchers.dependents import Coverage
from tests.cluster import JSON_PATCH, Api, kube_client, kubeconfig

WEB = ReleaseKey("shop", "web")
CONFIG_MAP = ObjectRef("v1", "ConfigMap", "shop", "web-cfg")
SECRET = ObjectRef("v1", "Secret", "shop", "web-cfg")
ROLE = ObjectRef("rbac.authorization.k8s.io/v1", "ClusterRole", "", "web")
KINDS = {
    ("v1", "ConfigMap"): Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
    ("v1", "Secret"): Resource("", "v1", "Secret", "secrets", namespaced=True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): Resource(
        "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
    ),
}


class Cluster:
    """Collections by path, which a test fills, and watches that it feeds; other paths do not exist."""

    def __init__(self, **collections):
        self.kinds = dict(KINDS)
        self.collections = {}
        self.feeds = {}
        self.asked = []

    async def resource(self, api_version, kind):
        self.asked.append(kind)
        if (api_version, kind) not in self.kinds:
            raise NotFound(f"the API server does not serve {kind} in {api_version}", status=404)
        return self.kinds[api_version, kind]

    async def list(self, path, query, *, metadata_only):
        assert query == {"labelSelector": "app.kubernetes.io/managed-by=Helm"}
        assert metadata_only is not path.endswith("/widgets")
        self.asked.append(path)
        found = self.collections.get(path, NotFound("no such path", status=404))
        if isinstance(found, Exception):
            raise found
        return copy.deepcopy(found), "100"

    async def watch(self, path, query, version, *, metadata_only):
        assert query == {"labelSelector": "app.kubernetes.io/managed-by=Helm"}
        assert metadata_only is not path.endswith("/widgets")
        feed = self.feeds[path] = asyncio.Queue()
        while True:
            event = await feed.get()
            if isinstance(event, Exception):
                raise event
            yield event

    async def tell(self, path, type_, item):
        """Send an event of a watch that was begun, and let it be worked off."""
        await until(lambda: path in self.feeds)
        self.feeds[path].put_nowait(WatchEvent(type_, copy.deepcopy(item)))
        await settle()


async def until(check):
    async with asyncio.timeout(5):
        while not check():  # noqa: ASYNC110 - what is checked has no event
            await asyncio.sleep(0.001)


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def told():
    """Return the releases that were said to have changed."""
    return []


@pytest.fixture
async def watching(cluster, told):
    """Make Dependents that are closed again."""
    made = []

    def make(*refs, **kwargs):
        subject = Dependents(cluster, told.append, manager="helm", health_changed=lambda _: None, **kwargs)
        made.append(subject)
        subject.ensure_watched(refs)
        return subject

    yield make
    for subject in made:
        await subject.close()


def item(ref=CONFIG_MAP, *, version="5", release=WEB, owned=("f:a", "f:b"), others=(), **meta):
    """Return an object's metadata; `owned` are the fields that Helm has, `others` further managers."""
    entries = [manager("helm", owned)] if owned else []
    marks = {"meta.helm.sh/release-name": release.name, "meta.helm.sh/release-namespace": release.namespace}
    return {
        "metadata": {
            "name": ref.name,
            **({"namespace": ref.namespace} if ref.namespace else {}),
            "resourceVersion": version,
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": marks,
            "managedFields": [*entries, *others],
            **meta,
        }
    }


def manager(name, fields, *, time="2026-11-30T10:00:00Z", operation="Apply", **rest):
    data = {"f:data": {field: {} for field in fields}}
    return {"manager": name, "operation": operation, "time": time, "fieldsV1": data, **rest}


CONFIG_MAPS = "/api/v1/configmaps"


async def synced(subject, ref):
    await until(lambda: subject.coverage(ref) is Coverage.WATCHED)
    await settle()


async def started(cluster, watching, *items, path=CONFIG_MAPS, ref=CONFIG_MAP):
    """Watch one kind that has these objects."""
    cluster.collections[path] = list(items)
    subject = watching(ref)
    await synced(subject, ref)
    await until(lambda: path in cluster.feeds)
    return subject


# What is found by the first list


async def test_an_object_as_helm_left_it_is_not_suspect(cluster, watching, told):
    status = manager("kubelet", ("f:x",), time="2026-11-30T11:00:00Z", subresource="status")
    before = manager("kubectl", ("f:x",), time="2026-11-30T09:59:59Z")
    subject = await started(cluster, watching, item(others=[status, before]))

    assert (subject.suspects(WEB), told) == (frozenset(), [])
    assert subject.exists(CONFIG_MAP)


@pytest.mark.parametrize("time", ["2026-11-30T10:00:00Z", "2026-11-30T10:00:01Z"])
async def test_an_object_that_somebody_wrote_to_after_helm_is_suspect(cluster, watching, told, time):
    subject = await started(cluster, watching, item(others=[manager("kubectl", ("f:x",), time=time)]))

    assert (subject.suspects(WEB), told) == ({CONFIG_MAP}, [WEB])


async def test_an_object_of_which_helm_owns_nothing_is_suspect(cluster, watching):
    subject = await started(cluster, watching, item(owned=()))

    assert subject.suspects(WEB) == {CONFIG_MAP}


async def test_an_object_of_nobodys_release_is_left_alone(cluster, watching, told):
    subject = await started(cluster, watching, item(owned=(), annotations={}))
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="6", annotations=None))
    await cluster.tell(CONFIG_MAPS, "DELETED", item(version="7", annotations=None))

    assert told == []
    assert not subject.exists(CONFIG_MAP)


# What is told by the watch


async def test_what_helm_creates_is_not_suspect(cluster, watching, told):
    subject = await started(cluster, watching)
    webhook = manager("webhook", ("f:x",), operation="Update")
    await cluster.tell(CONFIG_MAPS, "ADDED", item(others=[webhook]))

    assert (subject.suspects(WEB), told) == (frozenset(), [])
    assert subject.exists(CONFIG_MAP)


@pytest.mark.parametrize(
    "after",
    [
        item(version="6", owned=("f:a",), others=[manager("kubectl", ("f:b",), operation="Update")]),
        item(version="6", owned=("f:a",)),
        item(version="6", owned=()),
        item(version="6", others=[manager("helm", ("f:a",), operation="Update")]),
        item(version="6", deletionTimestamp="2026-11-30T11:00:00Z"),
    ],
    ids=["field taken over", "field removed", "all taken over", "edited in Helm's name", "being deleted"],
)
async def test_an_edit_of_helms_fields_makes_suspect(cluster, watching, told, after):
    subject = await started(cluster, watching, item())
    await cluster.tell(CONFIG_MAPS, "MODIFIED", after)

    assert (subject.suspects(WEB), told) == ({CONFIG_MAP}, [WEB])


@pytest.mark.parametrize(
    "others",
    [
        [manager("kubelet", ("f:ready",), operation="Update", subresource="status")],
        [manager("helm", ("f:ready",), operation="Update", subresource="status")],
        [manager("kubectl", ("f:c",), operation="Update")],
    ],
    ids=["status", "status in Helm's name", "a field beside"],
)
async def test_what_is_written_beside_helms_fields_does_not(cluster, watching, told, others):
    subject = await started(cluster, watching, item())
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="6", others=others))
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="7", others=others, labels={"x": "y"}))

    assert (subject.suspects(WEB), told) == (frozenset(), [])


async def test_a_secret_is_suspect_with_any_change(cluster, watching):
    subject = await started(cluster, watching, item(SECRET), path="/api/v1/secrets", ref=SECRET)
    assert subject.suspects(WEB) == frozenset()
    await cluster.tell("/api/v1/secrets", "MODIFIED", item(SECRET, version="5"))
    assert subject.suspects(WEB) == frozenset()
    await cluster.tell("/api/v1/secrets", "MODIFIED", item(SECRET, version="6"))
    assert subject.suspects(WEB) == {SECRET}


async def test_a_deletion_makes_suspect(cluster, watching, told):
    """Taking Helm's label off is one too: the watch selects by it."""
    subject = await started(cluster, watching, item())
    await cluster.tell(CONFIG_MAPS, "DELETED", item(version="6"))

    assert (subject.suspects(WEB), told) == ({CONFIG_MAP}, [WEB])
    assert not subject.exists(CONFIG_MAP)


async def test_an_object_whose_marks_are_taken_off_is_still_known_by_its_place(cluster, watching):
    subject = await started(cluster, watching, item())
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="6", owned=("f:a",), annotations={}))
    assert subject.suspects(WEB) == {CONFIG_MAP}

    subject.clear(WEB, [CONFIG_MAP])
    await cluster.tell(CONFIG_MAPS, "DELETED", item(version="7", annotations={}))
    assert subject.suspects(WEB) == {CONFIG_MAP}


async def test_what_happened_in_a_gap_of_the_watch_is_found_by_the_next_list(cluster, watching, told):
    names = [ObjectRef("v1", "ConfigMap", "shop", name) for name in ("kept", "edited", "deleted")]
    kept, edited, deleted = names
    subject = await started(cluster, watching, *map(item, names))
    assert told == []

    cluster.collections[CONFIG_MAPS] = [item(kept, version="50"), item(edited, version="51", owned=("f:a",))]
    cluster.feeds.pop(CONFIG_MAPS).put_nowait(Gone("too old", status=410))
    await until(lambda: CONFIG_MAPS in cluster.feeds)

    assert subject.suspects(WEB) == {edited, deleted}
    assert [subject.exists(ref) for ref in names] == [True, True, False]


# Taking back, and telling releases apart


async def test_a_suspicion_is_taken_back_for_the_objects_that_were_settled(cluster, watching):
    other = ObjectRef("v1", "ConfigMap", "shop", "other")
    subject = await started(cluster, watching, item(owned=()), item(other, owned=()))
    assert subject.suspects(WEB) == {CONFIG_MAP, other}

    subject.clear(WEB, [CONFIG_MAP, SECRET])
    assert subject.suspects(WEB) == {other}
    subject.clear(WEB, [other])
    subject.clear(WEB, [other])
    assert subject.suspects(WEB) == frozenset()
    assert subject._suspects == {}


async def test_each_release_has_its_own_suspects(cluster, watching, told):
    far = ReleaseKey("other", "web")
    theirs = ObjectRef("v1", "ConfigMap", "other", "web-cfg")
    subject = await started(cluster, watching, item(owned=()), item(theirs, release=far, owned=()))

    assert (subject.suspects(WEB), subject.suspects(far)) == ({CONFIG_MAP}, {theirs})
    subject.clear(far, [theirs, CONFIG_MAP])
    assert subject.suspects(WEB) == {CONFIG_MAP}
    assert sorted(told) == [far, WEB]


# Which watches there are


async def test_one_watch_for_each_kind_however_often_it_is_asked_for(cluster, watching):
    cluster.collections = {CONFIG_MAPS: [], "/api/v1/secrets": []}
    subject = watching(CONFIG_MAP, SECRET)
    other = ObjectRef("v1", "ConfigMap", "far", "x")
    subject.ensure_watched([CONFIG_MAP, other])
    await synced(subject, CONFIG_MAP)
    await synced(subject, SECRET)
    subject.ensure_watched([CONFIG_MAP])
    await settle()

    assert sorted(cluster.asked) == sorted(["ConfigMap", "Secret", CONFIG_MAPS, "/api/v1/secrets"])
    assert subject.coverage(other) is Coverage.WATCHED
    assert subject.coverage(ROLE) is Coverage.NOT_WATCHED


async def test_watches_are_limited_to_the_served_namespaces(cluster, watching):
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    paths = [f"/api/v1/namespaces/{name}/configmaps" for name in ("shop", "far")]
    far = ObjectRef("v1", "ConfigMap", "far", "x")
    outside = ObjectRef("v1", "ConfigMap", "outside", "x")
    cluster.collections = {paths[0]: [item()], paths[1]: [item(far)], roles: [item(ROLE, owned=())]}
    subject = watching(CONFIG_MAP, ROLE, namespaces=("shop", "far"))
    for ref in (CONFIG_MAP, far, ROLE):
        await synced(subject, ref)

    assert sorted(cluster.feeds) == sorted([*paths, roles])
    assert subject.coverage(outside) is Coverage.NOT_WATCHED
    assert subject.suspects(WEB) == {ROLE}
    await until(lambda: set(cluster.feeds) == {*paths, roles})
    cluster.collections[paths[1]] = []
    cluster.feeds[paths[1]].put_nowait(Gone("too old", status=410))
    await until(lambda: not subject.exists(far))
    assert subject.exists(CONFIG_MAP), "one namespace's list must not erase another's"


async def test_a_kind_that_is_not_served_yet_is_watched_once_it_is(cluster, watching, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(dependents, "_RETRY_SECONDS", 0.005)
    ref = ObjectRef("example.com/v1", "Widget", "shop", "w")
    subject = watching(ref)
    assert subject.coverage(ref) is Coverage.STARTING
    await until(lambda: len(cluster.asked) > 5)
    assert subject.coverage(ref) is Coverage.NOT_WATCHED
    assert [record.getMessage() for record in caplog.records] == [
        "cannot watch Widget of example.com/v1 yet: the API server does not serve Widget in example.com/v1"
    ]

    cluster.collections["/apis/example.com/v1/widgets"] = [item(ref, owned=())]
    cluster.kinds["example.com/v1", "Widget"] = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
    await synced(subject, ref)
    assert subject.suspects(WEB) == {ref}


@pytest.mark.parametrize(
    ("error", "coverage"),
    [
        (Forbidden("no", status=403), Coverage.NOT_WATCHED),
        (NotFound("no", status=404), Coverage.NOT_WATCHED),
        (ApiUnavailable("no"), Coverage.STARTING),
    ],
)
async def test_what_may_not_be_listed_is_not_watched(cluster, watching, error, coverage):
    cluster.collections[CONFIG_MAPS] = error
    subject = watching(CONFIG_MAP)
    await until(lambda: CONFIG_MAPS in cluster.asked)
    await settle()

    assert subject.coverage(CONFIG_MAP) is coverage


async def test_closing_ends_all_watches(cluster, watching):
    subject = await started(cluster, watching, item())
    await subject.close()
    cluster.feeds[CONFIG_MAPS].put_nowait(WatchEvent("DELETED", item(version="6")))
    await settle()

    assert subject.exists(CONFIG_MAP)
    assert all(task.done() for task in subject._tasks)


# On a real API server, with a real release


@pytest.fixture
def real_namespace():
    api, name = Api(kubeconfig()), f"dep-{uuid.uuid4().hex[:6]}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.cluster
@pytest.mark.helm
async def test_edits_of_a_real_release(helm4, tmp_path, real_namespace):
    async with kube_client() as kube:
        await edits(kube, helm4, tmp_path, real_namespace)


async def edits(kube, helm4, tmp_path, namespace):
    api, key = Api(kubeconfig()), ReleaseKey(namespace, "web")
    config_map = ObjectRef("v1", "ConfigMap", namespace, "web-cfg")
    deployment = ObjectRef("apps/v1", "Deployment", namespace, "web")
    secret = ObjectRef("v1", "Secret", namespace, "web-key")
    chart(tmp_path)
    await helm(helm4, "install", key, tmp_path)
    woken = asyncio.Event()
    subject = Dependents(
        kube,
        lambda release: release == key and woken.set(),
        manager="helm",
        health_changed=lambda _: None,
        namespaces=(namespace,),
    )

    async def edit(ref, path, body, content_type=None, *, suspect=True):
        """Change an object and see whether it becomes suspect."""
        woken.clear()
        arguments = [body] if content_type is None else [body, content_type]
        await asyncio.to_thread(api.patch, path, *arguments)
        if suspect:
            await asyncio.wait_for(woken.wait(), 10)
            assert subject.suspects(key) == {ref}
            subject.clear(key, [ref])
        else:
            await asyncio.sleep(0.3)
            assert subject.suspects(key) == frozenset()

    cm_path = f"/api/v1/namespaces/{namespace}/configmaps/web-cfg"
    deployment_path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    try:
        subject.ensure_watched([config_map, deployment, secret])
        for ref in (config_map, deployment, secret):
            await synced(subject, ref)
        await asyncio.sleep(1.2)  # The controllers' first writes; managed fields have times in whole seconds.
        subject.clear(key, subject.suspects(key))

        await edit(config_map, cm_path, {"data": {"extra": "1"}}, suspect=False)
        await edit(config_map, cm_path, {"data": {"a": "changed"}})
        await edit(config_map, cm_path, [{"op": "remove", "path": "/data/b"}], JSON_PATCH)
        status = {"status": {"conditions": [{"type": "X", "status": "True"}]}}
        await edit(deployment, f"{deployment_path}/status", status, suspect=False)
        beside = {"spec": {"template": {"metadata": {"labels": {"more": "x"}}}}}
        await edit(deployment, deployment_path, beside, suspect=False)
        await edit(deployment, deployment_path, {"spec": {"replicas": 0}})
        await edit(secret, f"/api/v1/namespaces/{namespace}/secrets/web-key", {"data": {"key": "eHg="}})
        await edit(config_map, cm_path, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
        assert not subject.exists(config_map)

        await helm(helm4, "upgrade", key, tmp_path, "--force-conflicts")
        await until(lambda: subject.exists(config_map))
        subject.clear(key, subject.suspects(key))
        woken.clear()
        await asyncio.to_thread(api.delete, deployment_path)
        await asyncio.wait_for(woken.wait(), 10)
        assert subject.suspects(key) == {deployment}
    finally:
        await subject.close()


@pytest.mark.cluster
@pytest.mark.helm
@pytest.mark.parametrize(
    ("patch", "suspect"),
    [
        (None, False),
        ([{"op": "replace", "path": "/data/b", "value": "changed"}], True),
        # It leaves no trace in managedFields; the comparison after a start finds it.
        ([{"op": "remove", "path": "/data/b"}], False),
    ],
    ids=["nothing", "changed", "removed"],
)
async def test_what_was_done_to_a_real_release_while_nobody_watched(helm4, tmp_path, real_namespace, patch, suspect):
    api = Api(kubeconfig())
    key = ReleaseKey(real_namespace, f"web-{uuid.uuid4().hex[:6]}")
    config_map = ObjectRef("v1", "ConfigMap", real_namespace, f"{key.name}-cfg")
    chart(tmp_path)
    await helm(helm4, "install", key, tmp_path)
    if patch:
        await asyncio.sleep(1.1)
        path = f"/api/v1/namespaces/{real_namespace}/configmaps/{config_map.name}"
        await asyncio.to_thread(api.patch, path, patch, JSON_PATCH)
    async with kube_client() as kube:
        await sees(kube, key, config_map, suspect)


async def sees(kube, key, config_map, suspect):
    subject = Dependents(
        kube, lambda _: None, manager="helm", health_changed=lambda _: None, namespaces=(key.namespace,)
    )
    try:
        subject.ensure_watched([config_map])
        await synced(subject, config_map)
        assert subject.suspects(key) == ({config_map} if suspect else frozenset())
    finally:
        await subject.close()


TEMPLATES = """
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-cfg"}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-key"}
stringData: {key: "x"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: 1
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec: {containers: [{name: main, image: nginx}]}
"""


def chart(folder):
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 0.1.0\n")
    (folder / "templates" / "all.yaml").write_text(TEMPLATES)


async def helm(executable, verb, key, folder: Path, *flags):
    command = [executable, verb, key.name, str(folder), "--namespace", key.namespace, *flags]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Objects that are left as they differ, or are not to be compared


async def test_an_object_that_is_followed_is_suspect_at_any_change(cluster, watching, told):
    subject = await started(cluster, watching, item())
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="6"))
    assert told == []
    subject.follow(WEB, {CONFIG_MAP})
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="7"))
    assert (subject.suspects(WEB), told) == ({CONFIG_MAP}, [WEB])

    subject.clear(WEB, {CONFIG_MAP})
    await cluster.tell(CONFIG_MAPS, "DELETED", item(version="8"))
    subject.clear(WEB, {CONFIG_MAP})
    await cluster.tell(CONFIG_MAPS, "ADDED", item(version="9"))
    assert subject.suspects(WEB) == {CONFIG_MAP}

    subject.clear(WEB, {CONFIG_MAP})
    subject.follow(WEB, ())
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="10"))
    assert subject.suspects(WEB) == frozenset()


async def test_who_excludes_an_object_or_takes_that_back_has_it_looked_at(cluster, watching):
    marks = item()["metadata"]["annotations"]
    subject = await started(cluster, watching, item())
    excluded = item(version="6", annotations={**marks, "helm-operator.io/drift": "disabled"})
    await cluster.tell(CONFIG_MAPS, "MODIFIED", excluded)
    assert subject.suspects(WEB) == {CONFIG_MAP}

    subject.clear(WEB, {CONFIG_MAP})
    await cluster.tell(CONFIG_MAPS, "MODIFIED", item(version="7"))
    assert subject.suspects(WEB) == {CONFIG_MAP}
