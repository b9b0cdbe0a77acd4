"""The charts that come with the operator, through the real Helm of each version that it supports."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.helm

ROOT = Path(__file__).parents[2]
CHARTS = ("webapp", "memcached")
SAMPLES = [path for path in sorted((ROOT / "config/samples").rglob("*.yaml")) if path.name != "kustomization.yaml"]

LABELS = {
    "helm.sh/chart",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
}
EVERYTHING = {
    "webapp": {
        "global": {"team": "shop"},
        "replicaCount": 3,
        "image": {"registry": "registry.example.com:5000", "tag": f"1.2@sha256:{'a' * 64}", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "shop",
        "config": {"LOG_LEVEL": "info", "SIZE": "1048576"},
        "containerPort": 8081,
        "service": {"type": "NodePort", "port": 8080, "nodePort": 30080, "annotations": {"a": "true"}},
        "ingress": {
            "enabled": True,
            "className": "public",
            "host": "*.example.com",
            "path": "/shop",
            "pathType": "Exact",
            "annotations": {"a": "1"},
            "tls": {"enabled": True, "secretName": "cert"},
        },
        "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 4, "targetCPUUtilizationPercentage": 70},
        "serviceAccount": {"create": True, "name": "shop", "annotations": {"a": "b"}},
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": 2147483648}},
        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"tier": "front"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    },
    "memcached": {
        "global": {},
        "replicaCount": 4,
        "image": {"registry": "", "repository": "mirror/memcached", "tag": "1.6", "pullPolicy": "Never"},
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "cache",
        "memoryMegabytes": 1048576,
        "maxConnections": 1048576,
        "port": 11212,
        "podDisruptionBudget": {"enabled": True, "minAvailable": "50%"},
        "resources": {"requests": {"cpu": "500m"}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"tier": "cache"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    },
}


@pytest.fixture(params=["HELM_OPERATOR_HELM4", "HELM_OPERATOR_HELM3"])
def helm(request, tmp_path):
    """Run helm; the values are given as the operator gives them, as JSON on standard input."""
    binary = os.environ.get(request.param)
    assert binary, f"set {request.param} to a helm binary"

    def run(*arguments, values=None):
        given = [] if values is None else ["--values", "-"]
        return subprocess.run(
            [binary, *arguments, *given],
            input=json.dumps(values),
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def render(helm):
    """Return the objects of a chart by kind."""

    def run(chart, values=None):
        answer = helm("template", "demo", f"{ROOT}/charts/{chart}", "--kube-version", "v1.30.0", values=values or {})
        assert answer.returncode == 0, answer.stderr
        objects = [item for item in yaml.safe_load_all(answer.stdout) if item]
        assert len({item["kind"] for item in objects}) == len(objects)
        return {item["kind"]: item for item in objects}

    return run


@pytest.fixture
def refusal(helm):
    """Return why Helm refuses the values of a chart."""

    def run(chart, values):
        answer = helm("template", "demo", f"{ROOT}/charts/{chart}", "--kube-version", "v1.30.0", values=values)
        assert answer.returncode != 0
        return answer.stderr

    return run


def container(workload):
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("filled", [False, True], ids=["defaults", "everything"])
def test_lint_is_strict_and_silent(helm, chart, filled):
    answer = helm("lint", "--strict", f"{ROOT}/charts/{chart}", values=EVERYTHING[chart] if filled else {})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "WARNING" not in answer.stdout


@pytest.mark.parametrize(
    ("chart", "filled", "kinds"),
    [
        ("webapp", False, {"ConfigMap", "Deployment", "Service", "ServiceAccount"}),
        (
            "webapp",
            True,
            {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "Service", "ServiceAccount"},
        ),
        ("memcached", False, {"PodDisruptionBudget", "Service", "StatefulSet"}),
        ("memcached", True, {"PodDisruptionBudget", "Service", "StatefulSet"}),
    ],
)
def test_it_renders_labelled_objects(render, chart, filled, kinds):
    objects = render(chart, EVERYTHING[chart] if filled else None)
    assert set(objects) == kinds
    for item in objects.values():
        assert set(item["metadata"]["labels"]) >= LABELS, item["kind"]
        assert item["metadata"]["namespace"] == "default"


def test_the_values_of_everything_name_every_key():
    for chart in CHARTS:
        schema = json.loads((ROOT / f"charts/{chart}/values.schema.json").read_text())
        left_out = {"readinessProbe", "podSecurityContext", "securityContext"}
        assert set(schema["properties"]) - left_out <= set(EVERYTHING[chart])


@pytest.mark.parametrize("chart", CHARTS)
def test_the_schema_knows_each_default(chart):
    def compare(values, schema, path):
        schema = {**schema, **definitions.get(schema.get("$ref", "").rpartition("/")[2], {})}
        if "properties" in schema:
            assert set(values) == set(schema["properties"]) - {"global"}, path
            for name, value in values.items():
                if isinstance(value, dict):
                    compare(value, schema["properties"][name], f"{path}.{name}")

    whole = json.loads((ROOT / f"charts/{chart}/values.schema.json").read_text())
    definitions = whole["definitions"]
    values = yaml.safe_load((ROOT / f"charts/{chart}/values.yaml").read_text())
    if chart == "memcached":
        values["resources"] = {"requests": {}, "limits": {}}  # computed from other values where they are left out
    compare(values, whole, chart)


@pytest.mark.parametrize(
    ("chart", "values", "message"),
    [
        ("webapp", {"replicaCuont": 2}, "replicaCuont"),
        ("webapp", {"image": {"tags": "1"}}, "tags"),
        ("webapp", {"replicaCount": "2"}, "/replicaCount"),
        ("webapp", {"service": {"port": 70000}}, "/service/port"),
        ("webapp", {"service": {"type": "Nodeport"}}, "/service/type"),
        ("webapp", {"service": None}, "service"),
        ("webapp", {"resources": {"limits": {"memory": "64 MB"}}}, "/resources/limits/memory"),
        ("webapp", {"config": {"SIZE": 1048576}}, "/config/SIZE"),
        ("webapp", {"fullnameOverride": "My_App"}, "/fullnameOverride"),
        ("webapp", {"image": {"tag": "1.2 "}}, "/image/tag"),
        ("memcached", {"memory": 64}, "memory"),
        ("memcached", {"memoryMegabytes": 0}, "/memoryMegabytes"),
        ("memcached", {"podDisruptionBudget": {"minAvailable": "150%"}}, "/podDisruptionBudget/minAvailable"),
    ],
)
def test_a_mistake_is_refused_by_name(refusal, chart, values, message):
    text = refusal(chart, values)
    assert "values don't meet the specifications of the schema" in text
    assert message in text


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_samples_render(render, path):
    sample = yaml.safe_load(path.read_text())
    assert render(sample["kind"].lower(), sample["spec"])


def test_a_change_of_the_configuration_rolls_the_pods(render):
    def annotations(**values):
        return render("webapp", values)["Deployment"]["spec"]["template"]["metadata"]["annotations"]

    plain = annotations()["checksum/config"]
    assert annotations(config={"A": "1"})["checksum/config"] != plain
    assert annotations(replicaCount=4)["checksum/config"] == plain
    assert annotations(podAnnotations={"checksum/config": "mine"})["checksum/config"] == plain


def test_an_autoscaler_owns_the_number_of_pods(render):
    assert render("webapp", {"replicaCount": 3})["Deployment"]["spec"]["replicas"] == 3
    scaled = render("webapp", {"replicaCount": 3, "autoscaling": {"enabled": True}})
    assert "replicas" not in scaled["Deployment"]["spec"]
    assert scaled["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "demo-webapp"


@pytest.mark.parametrize("chart", CHARTS)
def test_the_pods_meet_the_restricted_standard(render, chart):
    workload = next(item for kind, item in render(chart).items() if kind in ("Deployment", "StatefulSet"))
    pod = workload["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container(workload)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("chart", CHARTS)
def test_labels_of_the_user_cannot_break_the_selector(render, chart):
    objects = render(chart, {"podLabels": {"app.kubernetes.io/name": "mine", "tier": "x"}})
    spec = next(item for kind, item in objects.items() if kind in ("Deployment", "StatefulSet"))["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert labels["tier"] == "x"
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert objects["Service"]["spec"]["selector"] == spec["selector"]["matchLabels"]


def test_null_takes_a_default_away(render):
    nulls = {
        "replicaCount": None,
        "livenessProbe": None,
        "image": {"pullPolicy": None},
        "config": {"A": None, "B": "2"},
        "resources": {"limits": {"memory": None, "cpu": None}},
    }
    objects = render("webapp", nulls)
    workload = objects["Deployment"]
    assert "replicas" not in workload["spec"]
    assert not {"livenessProbe", "imagePullPolicy"} & set(container(workload))
    assert container(workload)["resources"] == {"requests": {"cpu": "50m", "memory": "32Mi"}}
    assert objects["ConfigMap"]["data"] == {"B": "2"}


def test_large_numbers_stay_whole(render):
    assert container(render("webapp", {"resources": {"limits": {"memory": 134217728}}})["Deployment"])["resources"][
        "limits"
    ] == {"memory": "134217728"}
    cache = container(render("memcached", EVERYTHING["memcached"])["StatefulSet"])
    assert cache["args"] == ["--memory-limit=1048576", "--conn-limit=1048576", "--port=11212"]


@pytest.mark.parametrize(
    ("values", "resources"),
    [
        ({}, {"requests": {"cpu": "50m", "memory": "104Mi"}, "limits": {"memory": "120Mi"}}),
        ({"memoryMegabytes": 1024}, {"requests": {"cpu": "50m", "memory": "1064Mi"}, "limits": {"memory": "1320Mi"}}),
        (
            {"resources": {"requests": {"cpu": "1"}, "limits": {"memory": None}}},
            {"requests": {"cpu": "1", "memory": "104Mi"}},
        ),
    ],
)
def test_memory_follows_the_size_of_the_cache(render, values, resources):
    assert container(render("memcached", values)["StatefulSet"])["resources"] == resources


def test_the_cache_has_a_headless_service(render):
    objects = render("memcached")
    assert objects["Service"]["spec"]["clusterIP"] == "None"
    assert objects["StatefulSet"]["spec"]["serviceName"] == objects["Service"]["metadata"]["name"]
    assert objects["PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    assert "PodDisruptionBudget" not in render("memcached", {"podDisruptionBudget": {"enabled": False}})


@pytest.mark.parametrize("chart", CHARTS)
def test_the_helmignore_file_keeps_the_chart(helm, tmp_path, chart):
    answer = helm("package", f"{ROOT}/charts/{chart}", "--destination", str(tmp_path))
    assert answer.returncode == 0, answer.stderr
    names = subprocess.run(["tar", "tzf", *tmp_path.glob("*.tgz")], capture_output=True, text=True, check=True).stdout
    assert f"{chart}/templates/_helpers.tpl" in names
    assert f"{chart}/values.schema.json" in names
