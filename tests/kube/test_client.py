"""`KubeClient` on a real API server."""

import asyncio
import contextlib
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from helm_operator.errors import ApiError, Conflict, Forbidden, NotFound
from helm_operator.helm.records import decode_release
from helm_operator.release import INPUT_LABEL, OWNER_LABEL, ObjectRef, ReleaseKey, ReleaseStatus
from tests.cluster import Api, eventually, kube_client, kubeconfig

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[1] / "cases" / "files" / "27" / "chart"


@pytest.fixture
async def kube():
    async with kube_client() as kube:
        yield kube


@pytest.fixture(scope="module")
def namespace():
    name = f"kube-{uuid.uuid4().hex[:6]}"
    api = Api(kubeconfig())
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def config_map(namespace):
    """Return where a ConfigMap of this test alone would be."""
    return ObjectRef("v1", "ConfigMap", namespace, f"cm-{uuid.uuid4().hex[:8]}")


def body_of(ref, data, **meta):
    metadata = {"name": ref.name, "namespace": ref.namespace, **meta}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, "data": data}


async def test_kinds_are_looked_up_as_they_are_served(kube):
    assert (await kube.version()).startswith("v1.")
    config_map = await kube.resource("v1", "ConfigMap")
    namespace = await kube.resource("v1", "Namespace")
    deployment = await kube.resource("apps/v1", "Deployment")
    sent = kube.requests

    assert (config_map.plural, config_map.namespaced, config_map.status_subresource) == ("configmaps", True, False)
    assert (namespace.plural, namespace.namespaced, namespace.status_subresource) == ("namespaces", False, True)
    assert (deployment.plural, deployment.group, deployment.status_subresource) == ("deployments", "apps", True)
    assert {"get", "list", "watch", "patch"} <= deployment.verbs
    await kube.resource("v1", "Secret")
    await kube.resource("apps/v1", "StatefulSet")
    assert kube.requests == sent
    for api_version, kind in (("apps/v1", "Nonesuch"), ("nonesuch.example.com/v1", "Web"), ("v9", "ConfigMap")):
        with pytest.raises(NotFound, match=f"does not serve {kind} in {api_version}"):
            await kube.resource(api_version, kind)


async def test_an_edit_on_an_old_state_is_a_conflict(kube, config_map):
    resource = await kube.resource("v1", "ConfigMap")
    await kube.apply_object(config_map, body_of(config_map, {"a": "1"}), manager="tests")
    old = await kube.get_custom_resource(resource, config_map.namespace, config_map.name)

    async def patch(data, version):
        change = {"metadata": {"resourceVersion": version}, "data": data}
        return await kube.patch_custom_resource(resource, config_map.namespace, config_map.name, change)

    new = await patch({"a": None, "b": "2"}, old["metadata"]["resourceVersion"])
    assert new["data"] == {"b": "2"}
    with pytest.raises(Conflict) as caught:
        await patch({"b": "3"}, old["metadata"]["resourceVersion"])
    assert caught.value.status == 409
    assert (await kube.get_object(config_map))["data"] == {"b": "2"}


async def test_what_is_not_there_is_not_found_and_may_be_deleted(kube, config_map):
    with pytest.raises(NotFound) as caught:
        await kube.get_object(config_map)
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    await kube.delete_object(config_map)

    await kube.apply_object(config_map, body_of(config_map, {}), manager="tests")
    await kube.delete_object(config_map)
    with pytest.raises(NotFound):
        await kube.get_object(config_map, metadata_only=True)


async def test_a_refused_object_is_an_error_that_says_why(kube, config_map):
    with pytest.raises(ApiError) as caught:
        await kube.apply_object(config_map, body_of(config_map, {"not/a/key": "1"}), manager="tests")

    assert type(caught.value) is ApiError
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    assert "not/a/key" in str(caught.value)


async def test_the_api_servers_words_arrive_for_an_account_without_rights(api, namespace, tmp_path, config_map):
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(path, {"metadata": {"name": "nobody"}})
    answer = api.post(f"{path}/nobody/token", {"spec": {"expirationSeconds": 600}})
    config = yaml.safe_load(Path(kubeconfig()).read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    async with kube_client(str(tmp_path / "kubeconfig")) as kube:
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:nobody") as caught:
            await kube.get_object(config_map)
        assert caught.value.status == 403
        with pytest.raises(Forbidden):
            await anext(kube.watch("/api/v1/secrets", {}, "1", metadata_only=True))
        kube._configuration.api_key["BearerToken"] = "Bearer nonsense"
        with pytest.raises(Forbidden) as caught:
            await kube.get_object(config_map)
        assert caught.value.status == 401


async def test_a_large_collection_is_read_in_pages_and_watched_from_there(kube, namespace):
    count = 520
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    label = {"labels": {"test": "pages"}}

    async def create(number):
        body = body_of(ObjectRef("v1", "ConfigMap", namespace, f"page-{number:03}"), {"a": "x"}, **label)
        await kube._transport.request("POST", path, body=body)

    await asyncio.gather(*(create(number) for number in range(count)))
    query = {"labelSelector": "test=pages"}
    sent = kube.requests
    items, version = await kube.list(path, query, metadata_only=True)

    assert [item["metadata"]["name"] for item in items] == [f"page-{number:03}" for number in range(count)]
    assert kube.requests - sent == 2
    assert not any("data" in item for item in items)
    full, _ = await kube.list(path, query, metadata_only=False)
    assert len(full) == count
    assert all(item["data"] == {"a": "x"} for item in full)

    await create(count)
    await kube._transport.request("DELETE", f"{path}/page-000")
    events = [(event.type, event.object["metadata"]["name"]) async for event in first(2, kube, path, query, version)]
    assert events == [("ADDED", f"page-{count}"), ("DELETED", "page-000")]


async def first(count, kube, path, query, version, *, metadata_only=True):
    """Yield the first events of a watch."""
    events = kube.watch(path, query, version, metadata_only=metadata_only)
    async with asyncio.timeout(10), contextlib.aclosing(events):
        async for event in events:
            if event.type != "BOOKMARK":
                yield event
                count -= 1
            if not count:
                return


async def test_a_watch_of_metadata_carries_no_data_and_goes_on_where_it_ended(kube, namespace):
    path = f"/api/v1/namespaces/{namespace}/secrets"
    query = {"labelSelector": "test=watch"}
    ref = ObjectRef("v1", "Secret", namespace, "watched")
    body = body_of(ref, {"key": "c2VjcmV0"}, labels={"test": "watch"})
    _, start = await kube.list(path, query, metadata_only=True)
    for value in ("b25l", "dHdv", "dHJvaXM="):
        await kube.apply_object(ref, {**body, "data": {"key": value}}, manager="tests")

    events = [event async for event in first(3, kube, path, query, start)]
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "MODIFIED"]
    assert not any("data" in event.object for event in events)
    assert all(event.object["metadata"]["managedFields"] for event in events)

    version = events[1].object["metadata"]["resourceVersion"]
    (last,) = [event async for event in first(1, kube, path, query, version, metadata_only=False)]
    assert last.object["data"] == {"key": "dHJvaXM="}
    metadata = await kube.get_object(ref, metadata_only=True)
    assert (metadata["kind"], "data" in metadata) == ("PartialObjectMetadata", False)


async def test_every_character_arrives_unchanged(kube, config_map):
    everything = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    size = 150_000
    assert len(everything) == 0x110000 - 0x800
    texts = ["".join(everything[start : start + size]) for start in range(0, len(everything), size)]
    for text in texts:
        wanted = {"text": text}
        answer = await kube.apply_object(config_map, body_of(config_map, wanted), manager="tests", dry_run=True)
        assert answer["data"] == wanted


async def test_odd_texts_are_stored_unchanged(kube, config_map):
    data = {
        "controls": "".join(map(chr, range(0x20))) + "\x7f\x80\x85\x9f",
        "lines": "a\nb\r\nc \u2028 d \u2029 e \x85 f\n\n  indented\n---\n...\n# no comment\n",
        "emoji": "🚢 👩‍👩‍👧‍👦 \ufeff\ufffe\uffff",
        "yaml": "'\"{[*&!|>%@`: - ? \\u0041 \\n",
        "words": "yes",
        "blank": "",
        "spaces": "  \t ",
        "long": 'é\\"' * 20_000,
    }
    await kube.apply_object(config_map, body_of(config_map, data, annotations={"k": "☃\u2028🚢"}), manager="tests")

    live = await kube.get_object(config_map)
    assert live["data"] == data
    assert live["metadata"]["annotations"] == {"k": "☃\u2028🚢"}


async def test_applying_takes_fields_over_and_a_dry_run_changes_nothing(kube, config_map):
    await kube.apply_object(config_map, body_of(config_map, {"a": "1", "b": "1"}), manager="one")
    before = await kube.get_object(config_map)

    would = await kube.apply_object(config_map, body_of(config_map, {"a": "2"}), manager="two", dry_run=True)
    assert would["data"] == {"a": "2", "b": "1"}
    assert await kube.get_object(config_map) == before
    absent = replace(config_map, name=config_map.name + "-absent")
    await kube.apply_object(absent, body_of(absent, {}), manager="two", dry_run=True)
    with pytest.raises(NotFound):
        await kube.get_object(absent)

    await kube.apply_object(config_map, body_of(config_map, {"a": "2"}), manager="two")
    live = await kube.get_object(config_map)
    assert live["data"] == {"a": "2", "b": "1"}
    owners = {e["manager"]: e["fieldsV1"].get("f:data") for e in live["metadata"]["managedFields"]}
    assert owners == {"one": {"f:b": {}}, "two": {"f:a": {}}}


async def test_an_event_is_written(kube, namespace):
    event = {
        "metadata": {"name": f"web.{uuid.uuid4().hex}", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "namespace": namespace},
        "type": "Normal",
        "reason": "Tested",
        "message": "schön 🚢",
    }
    await kube.create_event(namespace, event)

    items, _ = await kube.list(
        f"/api/v1/namespaces/{namespace}/events", {"fieldSelector": "reason=Tested"}, metadata_only=False
    )
    assert [item["message"] for item in items] == ["schön 🚢"]
    with pytest.raises(Conflict):
        await kube.create_event(namespace, event)


async def test_a_new_crd_is_found_once_its_miss_is_old(kube, api, monkeypatch):
    monkeypatch.setattr("helm_operator.kube.client._MISS_SECONDS", 0.2)
    group = f"g{uuid.uuid4().hex[:6]}.example.com"
    crd = yaml.safe_load((CHART.parent / "crd.yaml").read_text().replace("lab.example.com", group))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with pytest.raises(NotFound):
        await kube.resource(f"{group}/v1alpha1", "Widget")
    api.post(path, crd)
    try:
        deadline = asyncio.get_running_loop().time() + 15
        while True:
            try:
                found = await kube.resource(f"{group}/v1alpha1", "Widget")
                break
            except NotFound:
                assert asyncio.get_running_loop().time() < deadline, "the new CRD was never found"
                await asyncio.sleep(0.1)
        assert (found.plural, found.status_subresource) == ("widgets", True)

        api.delete(f"{path}/{crd['metadata']['name']}")
        await asyncio.to_thread(eventually, lambda: _gone(api, f"/apis/{group}/v1alpha1"))
        assert await kube.resource(f"{group}/v1alpha1", "Widget") == found
        kube.forget_resource(f"{group}/v1alpha1")
        with pytest.raises(NotFound):
            await kube.resource(f"{group}/v1alpha1", "Widget")
    finally:
        api.delete(f"{path}/{crd['metadata']['name']}")


def _gone(api, path):
    assert api.get(path) is None


@pytest.mark.helm
async def test_the_records_of_a_release_are_as_helm_wrote_them(kube, namespace, helm4):
    key = ReleaseKey(namespace, "calm")
    assert (await kube.release_records(key))[0] == ()
    labels = f"{OWNER_LABEL}=uid-1,{INPUT_LABEL}=d-1"
    for verb, colour in (("install", "rot"), ("upgrade", "grün 🚢")):
        arguments = ["--namespace", namespace, "--labels", labels, "--set-string", f"colour={colour}"]
        done = await asyncio.to_thread(
            subprocess.run, [helm4, verb, "calm", str(CHART), *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    sent = kube.requests
    records, version = await kube.release_records(key)

    assert [(record.revision, record.status) for record in records] == [
        (2, ReleaseStatus.DEPLOYED),
        (1, ReleaseStatus.SUPERSEDED),
    ]
    assert {(record.key, record.owner_uid, record.input_digest) for record in records} == {(key, "uid-1", "d-1")}
    assert all(int(record.resource_version) <= int(version) for record in records)
    assert kube.requests - sent == 1
    content = decode_release(await kube.release_payload(key, 2))
    assert (content.revision, content.status, content.values) == (2, ReleaseStatus.DEPLOYED, {"colour": "grün 🚢"})
    assert content.objects
    with pytest.raises(NotFound):
        await kube.release_payload(key, 3)


async def test_a_large_text_beyond_ascii_fits_into_a_request(kube, config_map):
    """The API server takes 3 MiB; an escape for each letter would be five times the letter."""
    data = {"text": "é" * 400_000}
    answer = await kube.apply_object(config_map, body_of(config_map, data), manager="tests", dry_run=True)
    assert answer["data"] == data


async def test_half_a_character_is_refused(kube, config_map):
    with pytest.raises(ApiError) as caught:
        await kube.apply_object(config_map, body_of(config_map, {"text": "a\ud83d"}), manager="tests")
    assert caught.value.status == 400
