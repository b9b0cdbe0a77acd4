"""What the operator relies on in Helm: the same tests for the fake, for Helm 4 and for Helm 3."""

import asyncio
import base64
import json
import os
import uuid
from pathlib import Path

import pytest

from helm_operator.charts import load_chart
from helm_operator.errors import HelmError, HelmErrorKind
from helm_operator.helm import HelmCli, decode_release
from helm_operator.helm.command import HelmCommand
from helm_operator.helm.sizes import record_size, stored
from helm_operator.kube.records import record_from_metadata
from helm_operator.release import (
    INPUT_LABEL,
    OWNER_LABEL,
    ChartBulk,
    ChartInfo,
    DesiredRelease,
    InstallOptions,
    ObjectRef,
    ReleaseKey,
    ReleaseStatus,
    UpgradeOptions,
)
from tests.cluster import Api, kubeconfig
from tests.fakes import FakeHelm, ReleaseStore

CHART_YAML = "apiVersion: v2\nname: plain\nversion: 0.1.0\nappVersion: '7'\n"
TEMPLATE = """\
{{- if eq .Values.colour "nobody" }}{{ fail "nobody is no colour: see page 7" }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: "{{ .Release.Name }}-cfg"
  {{- with .Values.policy }}
  annotations: {helm.sh/resource-policy: {{ quote . }}}
  {{- end }}
data: {colour: {{ .Values.colour | quote }}}
{{- if .Values.disk }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: "{{ .Release.Name }}-disk"}
spec: {storageClassName: no-such-class, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
{{- end }}
{{- with .Values.hook }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $.Release.Name }}-hook", annotations: {helm.sh/hook: {{ quote . }}}}
{{- end }}
{{- if .Values.bad }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-extra"}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}-svc"}
spec: {ports: [{port: 99999}]}
{{- end }}
"""
DEFAULTS = {"colour": "blue", "policy": "", "hook": "", "disk": False, "bad": False}
SCHEMA = {"type": "object", "properties": {"colour": {"type": "string"}}}


class Stage:
    """A Helm, and a look at what it left behind. `chart` is the path of a chart that works."""

    def desired(self, values=None, *, name="web", digest="d1", chart=None, **options):
        return DesiredRelease(
            key=ReleaseKey(self.namespace, name),
            owner_uid="uid-1",
            chart=ChartInfo("plain", "0.1.0", "7"),
            chart_path=chart or self.chart,
            values=values or {},
            values_digest="sha256:v",
            input_digest=digest,
            timeout=60.0,
            **options,
        )

    def statuses(self, name="web"):
        """Return (revision, status) pairs, oldest first."""
        return [(record.revision, record.status.value) for record in reversed(self.records(self.key(name)))]

    def key(self, name="web"):
        return ReleaseKey(self.namespace, name)

    async def until_pending(self, name="web"):
        async with asyncio.timeout(30):
            while not any(record.status.pending for record in self.records(self.key(name))):  # noqa: ASYNC110 (a poll)
                await asyncio.sleep(0.05)


class FakeStage(Stage):
    namespace = "shop"
    chart = Path("/charts/plain")

    def __init__(self, _folder):
        self.store = ReleaseStore()
        self.helm = FakeHelm(self.store, {self.chart: self._render})
        self.records = self.store.records

    def content(self, revision, name="web"):
        return decode_release(self.store.payload(self.key(name), revision))

    def take(self, name):
        self.helm.cluster[ObjectRef("v1", "ConfigMap", self.namespace, name)] = None

    def objects(self):
        return {ref.name for ref in self.helm.cluster}

    def add_by_hand(self, name):
        self.helm.additions.add(ObjectRef("v1", "ConfigMap", self.namespace, name))

    def added_by_hand(self, name):
        return ObjectRef("v1", "ConfigMap", self.namespace, name) in self.helm.additions

    def paint_by_hand(self, name):
        self.helm.conflicts.add(ObjectRef("v1", "ConfigMap", self.namespace, name))

    def painted_by_hand(self, name):
        return ObjectRef("v1", "ConfigMap", self.namespace, name) in self.helm.conflicts

    def unreachable(self):
        self.helm.reachable = False
        return self.helm

    def broken_chart(self):
        return Path("/charts/broken")

    def processes(self):
        return []

    def _render(self, desired, _upgrading):
        values = DEFAULTS | desired.values
        meta = {
            "name": f"{desired.key.name}-cfg",
            "annotations": {"helm.sh/resource-policy": values["policy"]},
        }
        found = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"colour": values["colour"]}}]
        if not isinstance(values["colour"], str):
            raise HelmError("at '/colour': got number, want string", kind=HelmErrorKind.VALUES)
        if values["colour"] == "nobody":
            raise HelmError("plain/templates/cm.yaml: see page 7", kind=HelmErrorKind.RENDER)
        if values["bad"]:
            self.helm.failures.append(HelmError("Service: must be between 1 and 65535", kind=HelmErrorKind.INVALID))
            extra = {"name": f"{desired.key.name}-extra"}
            found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": extra})
        if values["hook"]:
            hook = {"name": f"{desired.key.name}-hook", "annotations": {"helm.sh/hook": values["hook"]}}
            found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": hook})
        self.helm.hold = asyncio.Event() if values["disk"] and desired.wait else None
        return found


class RealStage(Stage):
    def __init__(self, folder, executable):
        self.folder = folder
        self.executable = executable
        self.namespace = f"contract-{uuid.uuid4().hex[:8]}"
        self.api = Api(kubeconfig())
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.chart = folder / "plain"
        (self.chart / "templates").mkdir(parents=True)
        (self.chart / "Chart.yaml").write_text(CHART_YAML)
        (self.chart / "values.yaml").write_text(json.dumps(DEFAULTS))
        (self.chart / "values.schema.json").write_text(json.dumps(SCHEMA))
        (self.chart / "templates" / "cm.yaml").write_text(TEMPLATE)
        self.helm = HelmCli(executable, kubeconfig=kubeconfig(), home=folder / "home")

    def records(self, key):
        found = [record_from_metadata(item) for item in self._secrets(f"owner=helm,name={key.name}")]
        return tuple(sorted(found, key=lambda record: -record.revision))

    def content(self, revision, name="web"):
        (item,) = self._secrets(f"owner=helm,name={name},version={revision}")
        return decode_release(item["data"]["release"])

    def _secrets(self, labels):
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/secrets", labelSelector=labels)

    def take(self, name):
        body = {"metadata": {"name": name}, "data": {"colour": "mine"}}
        self.api.post(f"/api/v1/namespaces/{self.namespace}/configmaps", body)

    def objects(self):
        items = self.api.items(f"/api/v1/namespaces/{self.namespace}/configmaps")
        return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}

    def add_by_hand(self, name):
        self._patch(name, {"added": "by hand"})

    def added_by_hand(self, name):
        return "added" in self._data(name)

    def paint_by_hand(self, name):
        self._patch(name, {"colour": "by hand"})

    def painted_by_hand(self, name):
        return self._data(name)["colour"] == "by hand"

    def _patch(self, name, data):
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}?fieldManager=somebody"
        self.api.patch(path, {"data": data})

    def _data(self, name):
        return self.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")["data"]

    def unreachable(self):
        config = Path(kubeconfig()).read_text().replace(self.api.server, "https://127.0.0.1:1")
        path = self.folder / "down.kubeconfig"
        path.write_text(config)
        return HelmCli(self.executable, kubeconfig=str(path), home=self.folder / "home")

    def broken_chart(self):
        (self.folder / "broken").mkdir()
        return self.folder / "broken"

    def processes(self):
        """Return the command lines of helm processes that work in our namespace."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended while we looked
            if self.namespace.encode() in words:
                found.append(words)
        return found


REAL = [pytest.mark.helm, pytest.mark.cluster]


@pytest.fixture(params=["fake", pytest.param("helm4", marks=REAL), pytest.param("helm3", marks=REAL)])
def stage(request, tmp_path):
    if request.param == "fake":
        yield FakeStage(tmp_path)
        return
    stage = RealStage(tmp_path, request.getfixturevalue(request.param))
    yield stage
    stage.api.delete(f"/api/v1/namespaces/{stage.namespace}")


async def fails(call):
    with pytest.raises(HelmError) as caught:
        await call
    return caught.value


async def test_the_version_is_a_supported_one(stage):
    assert (await stage.helm.version()).startswith(("v3.", "v4."))
    assert stage.helm.field_manager == "helm"


async def test_install_makes_revision_1_with_our_labels(stage):
    await stage.helm.install(stage.desired({"colour": "red"}))

    (record,) = stage.records(stage.key())
    assert (record.revision, record.status) == (1, ReleaseStatus.DEPLOYED)
    assert (record.owner_uid, record.input_digest) == ("uid-1", "d1")
    content = stage.content(1)
    assert content.values == {"colour": "red"}
    assert (content.chart.name, content.chart.version, content.chart.app_version) == ("plain", "0.1.0", "7")
    assert [item["data"] for item in content.objects] == [{"colour": "red"}]
    assert stage.objects() == {"web-cfg"}


async def test_install_refuses_a_name_in_use(stage):
    await stage.helm.install(stage.desired())
    error = await fails(stage.helm.install(stage.desired({"colour": "red"})))

    assert error.kind is HelmErrorKind.NAME_IN_USE
    assert stage.statuses() == [(1, "deployed")]


async def test_upgrade_makes_a_revision_and_forgets_the_old_values(stage):
    await stage.helm.install(stage.desired({"colour": "red"}))
    await stage.helm.upgrade(stage.desired({}, digest="d2"))

    assert stage.statuses() == [(1, "superseded"), (2, "deployed")]
    assert stage.content(2).values == {}
    assert stage.content(2).objects[0]["data"] == {"colour": "blue"}
    assert stage.records(stage.key())[0].input_digest == "d2"


@pytest.mark.helm
@pytest.mark.cluster
@pytest.mark.parametrize("helm", ["helm3", "helm4"])
async def test_the_size_of_a_record_is_told_to_within_one_percent(request, tmp_path, helm):
    stage = RealStage(tmp_path, request.getfixturevalue(helm))
    (stage.chart / "blob").write_bytes(os.urandom(700_000))
    options = ["--namespace", stage.namespace, "--values=-"]
    command = HelmCommand(stage.executable, kubeconfig=kubeconfig(), home=tmp_path / "home", grace=1.0)
    rendered = await command.render("install", "web", stage.chart, *options, values=b"{}", timeout=60.0)
    told = record_size(rendered)

    assert stage.statuses() == []
    await stage.helm.install(stage.desired(bulk=load_chart(stage.chart).bulk))
    (secret,) = stage._secrets("owner=helm,name=web")
    assert len(base64.b64decode(secret["data"]["release"])) == pytest.approx(told, rel=0.01)
    assert told == pytest.approx(stored(load_chart(stage.chart).bulk.packed), rel=0.01)
    stage.api.delete(f"/api/v1/namespaces/{stage.namespace}")


async def test_a_chart_that_does_not_fit_into_a_record_is_refused_before_anything_is_written(stage):
    bulk = ChartBulk(900_000, (("blob", 900_000),))
    error = await fails(stage.helm.install(stage.desired(bulk=bulk)))
    assert error.kind is HelmErrorKind.TOO_LARGE
    assert "blob (900000 bytes)" in str(error)
    assert stage.statuses() == []

    await stage.helm.install(stage.desired())
    error = await fails(stage.helm.upgrade(stage.desired({"colour": "red"}, bulk=bulk)))
    assert error.kind is HelmErrorKind.TOO_LARGE
    assert stage.statuses() == [(1, "deployed")]


async def test_upgrade_keeps_no_more_revisions_than_asked(stage):
    await stage.helm.install(stage.desired())
    for colour in ("red", "green", "grey"):
        await stage.helm.upgrade(stage.desired({"colour": colour}, history_max=2))

    assert stage.statuses() == [(3, "superseded"), (4, "deployed")]


async def test_upgrade_of_no_release_is_not_found(stage):
    error = await fails(stage.helm.upgrade(stage.desired()))

    assert error.kind is HelmErrorKind.NOT_FOUND
    assert stage.statuses() == []


async def test_rollback_repeats_a_revision_with_its_labels(stage):
    await stage.helm.install(stage.desired({"colour": "red"}))
    await stage.helm.upgrade(stage.desired({"colour": "green"}, digest="d2"))
    await stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10)

    assert stage.statuses() == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    assert stage.content(3).values == {"colour": "red"}
    assert (stage.records(stage.key())[0].owner_uid, stage.records(stage.key())[0].input_digest) == ("uid-1", "d1")


async def test_rollback_of_no_release_is_not_found(stage):
    error = await fails(stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10))
    assert error.kind is HelmErrorKind.NOT_FOUND


async def test_uninstall_takes_objects_and_history(stage):
    await stage.helm.install(stage.desired())
    assert await stage.helm.uninstall(stage.key(), timeout=60.0) == ""
    assert stage.statuses() == []
    assert stage.objects() == set()


async def test_uninstall_says_what_it_kept(stage):
    await stage.helm.install(stage.desired({"policy": "keep"}))
    said = await stage.helm.uninstall(stage.key(), timeout=60.0)

    assert "kept due to the resource policy" in said
    assert "[ConfigMap] web-cfg" in said
    assert "uninstalled" not in said
    assert stage.objects() == {"web-cfg"}


async def test_uninstall_of_no_release_is_not_found(stage):
    error = await fails(stage.helm.uninstall(stage.key(), timeout=60.0))
    assert error.kind is HelmErrorKind.NOT_FOUND


async def test_uninstall_can_keep_the_history(stage):
    await stage.helm.install(stage.desired())
    await stage.helm.upgrade(stage.desired({"colour": "red"}))
    assert await stage.helm.uninstall(stage.key(), timeout=60.0, keep_history=True, description="moved away") == ""

    assert stage.statuses() == [(1, "superseded"), (2, "uninstalled")]
    assert stage.content(2).description == "moved away"
    assert stage.objects() == set()
    assert stage.records(stage.key())[0].owner_uid == "uid-1"


async def test_a_kept_history_holds_the_name_until_another_uninstall(stage):
    await stage.helm.install(stage.desired())
    await stage.helm.uninstall(stage.key(), timeout=60.0, keep_history=True)

    assert (await fails(stage.helm.install(stage.desired()))).kind is HelmErrorKind.NAME_IN_USE
    assert (await fails(stage.helm.upgrade(stage.desired()))).kind is HelmErrorKind.NOT_FOUND
    again = await fails(stage.helm.uninstall(stage.key(), timeout=60.0, keep_history=True))
    assert again.kind is HelmErrorKind.NOT_FOUND
    assert await stage.helm.uninstall(stage.key(), timeout=60.0) == ""
    assert stage.statuses() == []


@pytest.mark.parametrize("disabled", [False, True])
async def test_hooks_run_unless_they_are_disabled(stage, disabled):
    quiet, loud = InstallOptions(disable_hooks=True), InstallOptions(disable_hooks=disabled)
    upgrading = UpgradeOptions(disable_hooks=disabled)
    hooks = {"web-hook"} if not disabled else set()

    await stage.helm.install(stage.desired({"hook": "pre-install"}, install=loud))
    assert stage.objects() - {"web-cfg"} == hooks

    await stage.helm.install(stage.desired({"hook": "post-upgrade,pre-rollback"}, name="up", install=quiet))
    await stage.helm.upgrade(stage.desired({"hook": "post-upgrade"}, name="up", upgrade=upgrading))
    assert ("up-hook" in stage.objects()) is not disabled

    await stage.helm.install(stage.desired({"hook": "pre-rollback"}, name="back", install=quiet))
    await stage.helm.rollback(stage.key("back"), 1, timeout=60.0, history_max=10, disable_hooks=disabled)
    assert ("back-hook" in stage.objects()) is not disabled

    await stage.helm.install(stage.desired({"hook": "pre-delete"}, name="gone", install=quiet))
    await stage.helm.uninstall(stage.key("gone"), timeout=60.0, disable_hooks=disabled)
    assert ("gone-hook" in stage.objects()) is not disabled


async def test_descriptions_are_in_the_records(stage):
    install, upgrade = InstallOptions(description="first, of all"), UpgradeOptions(description="--no-hooks $(id)")
    await stage.helm.install(stage.desired(install=install, upgrade=upgrade))
    await stage.helm.upgrade(stage.desired({"colour": "red"}, install=install, upgrade=upgrade))
    await stage.helm.upgrade(stage.desired({"colour": "green"}))
    await stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10)

    told = [stage.content(revision).description for revision in (1, 2, 3, 4)]
    assert told == ["first, of all", "--no-hooks $(id)", "Upgrade complete", "Rollback to 1"]


@pytest.mark.parametrize("cleanup", [False, True])
async def test_what_a_failed_upgrade_has_made_is_cleaned_up_if_asked(stage, cleanup):
    await stage.helm.install(stage.desired())
    await fails(stage.helm.upgrade(stage.desired({"bad": True}, upgrade=UpgradeOptions(cleanup_on_fail=cleanup))))

    assert stage.objects() == ({"web-cfg"} if cleanup else {"web-cfg", "web-extra"})
    assert stage.statuses() == [(1, "deployed"), (2, "failed")]


@pytest.mark.parametrize("force", [False, True])
async def test_force_replaces_objects_and_drops_what_others_added(stage, force):
    await stage.helm.install(stage.desired())
    stage.add_by_hand("web-cfg")
    await stage.helm.upgrade(stage.desired({"colour": "red"}, upgrade=UpgradeOptions(force=force)))
    assert stage.added_by_hand("web-cfg") is not force

    stage.add_by_hand("web-cfg")
    await stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10, force=force)
    assert stage.added_by_hand("web-cfg") is not force
    assert stage.statuses()[-1] == (3, "deployed")


async def test_a_field_that_somebody_else_holds(stage):
    """Helm 3 takes it, Helm 4 does so if it is told to."""
    taking = UpgradeOptions(force_conflicts=True)
    await stage.helm.install(stage.desired())
    stage.paint_by_hand("web-cfg")
    if (await stage.helm.version()).startswith("v3."):
        await stage.helm.upgrade(stage.desired({"colour": "red"}))
    else:
        error = await fails(stage.helm.upgrade(stage.desired({"colour": "red"})))
        assert error.kind is HelmErrorKind.FIELD_CONFLICT
        assert 'conflict with "somebody"' in str(error)
        await stage.helm.upgrade(stage.desired({"colour": "red"}, upgrade=taking))

    assert not stage.painted_by_hand("web-cfg")


async def test_rollback_and_install_take_fields_as_well(stage):
    if (await stage.helm.version()).startswith("v3."):
        pytest.skip("Helm 3 takes all fields")
    taking = UpgradeOptions(force_conflicts=True)
    await stage.helm.install(stage.desired({"policy": "keep"}))
    await stage.helm.upgrade(stage.desired({"policy": "keep", "colour": "red"}))
    stage.paint_by_hand("web-cfg")
    error = await fails(stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10))
    assert error.kind is HelmErrorKind.FIELD_CONFLICT
    await stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10, force_conflicts=True)
    assert not stage.painted_by_hand("web-cfg")

    await stage.helm.uninstall(stage.key(), timeout=60.0)
    stage.paint_by_hand("web-cfg")
    error = await fails(stage.helm.install(stage.desired({"policy": "keep"})))
    assert error.kind is HelmErrorKind.FIELD_CONFLICT
    await stage.helm.uninstall(stage.key(), timeout=60.0)
    await stage.helm.install(stage.desired({"policy": "keep"}, upgrade=taking))
    assert not stage.painted_by_hand("web-cfg")


async def test_fields_can_be_taken_after_objects_were_replaced(stage):
    """Helm 4 leaves server-side apply to replace objects, and would not come back by itself."""
    if (await stage.helm.version()).startswith("v3."):
        pytest.skip("Helm 3 takes all fields")
    await stage.helm.install(stage.desired())
    await stage.helm.upgrade(stage.desired({"colour": "red"}, upgrade=UpgradeOptions(force=True)))
    stage.paint_by_hand("web-cfg")
    await stage.helm.upgrade(stage.desired({"colour": "green"}, upgrade=UpgradeOptions(force_conflicts=True)))

    assert not stage.painted_by_hand("web-cfg")


async def test_force_stands_in_for_force_conflicts(stage):
    both = UpgradeOptions(force=True, force_conflicts=True)
    await stage.helm.check(both)
    await stage.helm.install(stage.desired(upgrade=both))
    stage.paint_by_hand("web-cfg")
    await stage.helm.upgrade(stage.desired({"colour": "red"}, upgrade=both))
    assert not stage.painted_by_hand("web-cfg")


async def test_force_conflicts_needs_helm_4(stage):
    taking = UpgradeOptions(force_conflicts=True)
    if not (await stage.helm.version()).startswith("v3."):
        await stage.helm.check(taking)
        return
    for call in (
        stage.helm.check(taking),
        stage.helm.install(stage.desired(upgrade=taking)),
        stage.helm.upgrade(stage.desired(upgrade=taking)),
        stage.helm.rollback(stage.key(), 1, timeout=60.0, history_max=10, force_conflicts=True),
    ):
        error = await fails(call)
        assert error.kind is HelmErrorKind.OTHER
        assert "forceConflicts needs Helm 4" in str(error)
    assert stage.statuses() == []


async def test_a_failed_install_leaves_a_failed_record_that_an_upgrade_mends(stage):
    error = await fails(stage.helm.install(stage.desired({"bad": True})))

    assert error.kind is HelmErrorKind.INVALID
    assert "must be between 1 and 65535" in str(error)
    assert stage.statuses() == [(1, "failed")]
    await stage.helm.upgrade(stage.desired())
    assert stage.statuses()[-1] == (2, "deployed")


async def test_a_failed_upgrade_leaves_the_deployed_revision(stage):
    await stage.helm.install(stage.desired())
    await fails(stage.helm.upgrade(stage.desired({"bad": True})))
    assert stage.statuses() == [(1, "deployed"), (2, "failed")]


@pytest.mark.parametrize(
    ("values", "kind", "says"),
    [
        ({"colour": 7}, HelmErrorKind.VALUES, "/colour"),
        ({"colour": "nobody"}, HelmErrorKind.RENDER, "see page 7"),
    ],
)
async def test_errors_of_authors_leave_no_record(stage, values, kind, says):
    error = await fails(stage.helm.install(stage.desired(values)))

    assert error.kind is kind
    assert says in str(error)
    assert stage.statuses() == []


async def test_a_chart_that_cannot_be_loaded(stage):
    error = await fails(stage.helm.install(stage.desired(chart=stage.broken_chart())))
    assert error.kind is HelmErrorKind.CHART
    assert stage.statuses() == []


async def test_an_object_of_somebody_else_is_left_alone(stage):
    stage.take("web-cfg")
    error = await fails(stage.helm.install(stage.desired()))

    assert error.kind is HelmErrorKind.OWNERSHIP
    assert 'ConfigMap "web-cfg"' in str(error)
    assert stage.statuses() == []
    assert stage.objects() == {"web-cfg"}


async def test_an_api_server_that_does_not_answer(stage):
    helm = stage.unreachable()
    for call in (
        helm.install(stage.desired()),
        helm.upgrade(stage.desired()),
        helm.rollback(stage.key(), 1, timeout=60.0, history_max=10),
        helm.uninstall(stage.key(), timeout=60.0),
    ):
        assert (await fails(call)).kind is HelmErrorKind.UNREACHABLE


async def test_another_action_meanwhile_is_locked_out(stage):
    slow = asyncio.create_task(stage.helm.install(stage.desired({"disk": True}, wait=True)))
    await stage.until_pending()
    error = await fails(stage.helm.upgrade(stage.desired()))
    slow.cancel()

    assert error.kind is HelmErrorKind.LOCKED
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_nothing_acts_after_a_cancelled_action(stage):
    slow = asyncio.create_task(stage.helm.install(stage.desired({"disk": True}, wait=True)))
    await stage.until_pending()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow

    assert stage.processes() == []
    before = stage.records(stage.key())
    assert [record.status for record in before] == [ReleaseStatus.FAILED]
    await asyncio.sleep(0.5)
    assert stage.records(stage.key()) == before


async def test_labels_of_the_record_are_what_the_watch_reads(stage):
    await stage.helm.install(stage.desired())
    (record,) = stage.records(stage.key())
    assert record.owner_uid == stage.desired().labels[OWNER_LABEL]
    assert record.input_digest == stage.desired().labels[INPUT_LABEL]
