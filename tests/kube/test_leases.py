"""Leases on a real API server, and that a replica that does not lead sends no change."""

import asyncio
import uuid

import pytest
from kubernetes.aio import client

from helm_operator.errors import Conflict, NotFound, NotLeading
from helm_operator.kube import KubeClient, Resource
from helm_operator.leader import Elector, Terms
from helm_operator.release import ObjectRef, ReleaseKey, ReleaseRecord, ReleaseStatus
from helm_operator.settings import LeaseName
from tests.cluster import kube_client

WIDGETS = Resource("lab.example.com", "v1", "Widget", "widgets", namespaced=True)
REF = ObjectRef("v1", "ConfigMap", "default", "x")
KEY = ReleaseKey("default", "web")
RECORD = ReleaseRecord(KEY, 1, ReleaseStatus.PENDING_UPGRADE, None, None, 0.0, "7")


@pytest.fixture
def name(api):
    name = f"lease-{uuid.uuid4().hex[:6]}"
    yield LeaseName("default", name)
    api.delete(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{name}")


@pytest.mark.cluster
async def test_two_electors_on_a_real_api_server(name, api):
    terms = Terms(duration=3.0, deadline=2.0, retry=0.2)
    async with kube_client() as kube:
        a, b = (Elector(kube, name, identity=who, terms=terms) for who in "ab")
        tasks = {who: asyncio.create_task(elector.run()) for who, elector in (("a", a), ("b", b))}
        await asyncio.sleep(1.5)
        assert sorted([a.valid(), b.valid()]) == [False, True]
        first, second = (a, b) if a.valid() else (b, a)
        tasks[first.identity].cancel()
        await asyncio.wait({tasks[first.identity]})
        await first.release()
        async with asyncio.timeout(1):
            await second.elected.wait()
        api.delete(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{name.name}")
        await asyncio.sleep(0.5)
        assert second.valid()
        spec = (await kube.get_lease(name.namespace, name.name))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (second.identity, 0)
        tasks[second.identity].cancel()
        await asyncio.wait({tasks[second.identity]})
        await second.release()
        spec = (await kube.get_lease(name.namespace, name.name))["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)


@pytest.mark.cluster
async def test_leases_fail_with_the_errors_that_the_port_promises(name):
    async with kube_client() as kube:
        meta = {"name": name.name, "namespace": name.namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}}
        with pytest.raises(NotFound):
            await kube.get_lease(name.namespace, name.name)
        with pytest.raises(NotFound):
            await kube.create_lease("no-such-namespace", {**lease, "metadata": {"name": name.name}})
        first = await kube.create_lease(name.namespace, lease)
        with pytest.raises(Conflict):
            await kube.create_lease(name.namespace, lease)
        first["spec"]["holderIdentity"] = "a"
        await kube.update_lease(name.namespace, first)
        with pytest.raises(Conflict):
            await kube.update_lease(name.namespace, first)
        gone = {**first, "metadata": {**first["metadata"], "name": "no-such-lease"}}
        with pytest.raises(Conflict):  # So the API server says of a Lease that was deleted meanwhile.
            await kube.update_lease(name.namespace, gone)


@pytest.mark.parametrize(
    "change",
    [
        lambda kube: kube.patch_custom_resource(WIDGETS, "default", "x", {}, subresource="status"),
        lambda kube: kube.replace_release(RECORD, "payload", ReleaseStatus.FAILED),
        lambda kube: kube.apply_object(REF, {}, manager="helm"),
        lambda kube: kube.delete_object(REF),
        lambda kube: kube.create_event("default", {}),
    ],
    ids=["status", "record", "apply", "delete", "event"],
)
async def test_a_replica_that_does_not_lead_sends_no_change(change):
    kube = KubeClient(client.Configuration(host="http://127.0.0.1:1"), may_write=lambda: False)
    kube._resources["v1"] = {"ConfigMap": Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)}
    try:
        with pytest.raises(NotLeading, match="was not sent"):
            await change(kube)
        assert kube.requests == 0
    finally:
        await kube.close()
