"""Where the operator finds its cluster, and that its token may change."""

import asyncio
import base64
import datetime
import json
import pwd
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kubernetes.aio.config import incluster_config

from helm_operator.errors import ApiUnavailable, ConfigError, Forbidden
from helm_operator.kube import KubeClient, load_configuration, transport
from tests.cluster import Api, kubeconfig

CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "one"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@pytest.fixture
def real():
    return kubeconfig()


@pytest.fixture
def away(tmp_path, monkeypatch):
    """Be a process without any cluster; HOME and the service account's folder are in tmp_path."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(transport, "_SERVICE_ACCOUNT", tmp_path / "account" / "token")
    return tmp_path


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


async def problem(**kwargs):
    with pytest.raises(ConfigError) as caught:
        await load_configuration(**kwargs)
    (found,) = caught.value.problems
    return str(found)


async def test_without_a_cluster_the_message_says_what_to_do(away):
    assert await problem() == "KUBECONFIG: no cluster: set KUBECONFIG to a kubeconfig file, or run in a Pod"


async def test_without_a_home_the_message_is_the_same(away, monkeypatch):
    """OpenShift runs containers with user ids that no passwd file knows."""

    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert "no cluster" in await problem()

    found, file = await load_configuration(written(away / "config", CONFIG))
    assert (found.host, file) == ("http://127.0.0.1:1", str(away / "config"))


async def test_the_environment_goes_before_the_account_and_the_account_before_the_home(away, monkeypatch):
    home = written(away / "home" / ".kube" / "config", CONFIG)
    assert (await load_configuration())[1] == home

    written(away / "account" / "token", "t")
    assert "service account" in await problem()
    monkeypatch.setenv("KUBECONFIG", written(away / "other", CONFIG))
    assert (await load_configuration())[1] == str(away / "other")


@pytest.mark.parametrize(
    "content",
    ["", "just text", "[1, 2]", "a: [", "\x00", {**CONFIG, "current-context": "y"}, {**CONFIG, "clusters": None}, {}],
)
async def test_a_file_that_is_no_kubeconfig_is_named(away, content):
    path = written(away / "config", content)
    assert (await problem(kubeconfig=path)).startswith(f"{path}: not a usable kubeconfig: ")


async def test_a_missing_file_is_named(away):
    assert str(away / "none") in await problem(kubeconfig=str(away / "none"))


async def test_an_account_outside_a_pod_is_named_and_not_a_kubeconfig(away, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    written(away / "account" / "token", "t")
    assert await problem() == f"{away / 'account'}: not a usable service account: Service host/port is not set."


async def test_a_kubeconfigs_token_file_may_rotate(away, monkeypatch):
    monkeypatch.setattr(transport, "_TOKEN_SECONDS", 0.0)
    written(away / "token", "one")
    config = {**CONFIG, "users": [{"name": "u", "user": {"tokenFile": "token"}}]}
    kube = KubeClient((await load_configuration(written(away / "config", config)))[0])
    seen = [(await kube.credentials()).token]
    written(away / "token", "two")
    seen.append((await kube.credentials()).token)
    (away / "token").unlink()
    seen.append((await kube.credentials()).token)
    await kube.close()

    assert seen == ["one", "two", "two"]


async def test_a_kubeconfig_that_names_another_cluster_by_now_gives_it_no_token(away, monkeypatch):
    monkeypatch.setattr(transport, "_TOKEN_SECONDS", 0.0)
    kube = KubeClient((await load_configuration(written(away / "config", CONFIG)))[0])
    other = {"name": "c", "cluster": {"server": "http://127.0.0.1:2"}}
    written(away / "config", {**CONFIG, "clusters": [other], "users": [{"name": "u", "user": {"token": "secret"}}]})

    found = await kube.credentials()
    assert (found.server, found.scheme, found.token) == ("http://127.0.0.1:1", "Bearer", "one")
    await kube.close()


@pytest.mark.cluster
async def test_a_pods_token_is_read_again_for_requests_watches_and_kopf(real, away, monkeypatch):
    api = Api(real)
    namespace = f"token-{uuid.uuid4().hex[:6]}"
    api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"

    def token(name):
        api.post(accounts, {"metadata": {"name": name}})
        spec = {"expirationSeconds": 600}
        return api.post(f"{accounts}/{name}/token", {"spec": spec})["status"]["token"]

    cluster = yaml.safe_load(Path(real).read_text())["clusters"][0]["cluster"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    account = away / "account"
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", written(account / "token", token("one")))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", written(account / "ca.crt", ca))
    configuration, file = await load_configuration()
    kube = KubeClient(configuration)
    try:
        assert file is None
        assert await names(kube) == ["one"] * 3

        written(account / "token", second := token("two"))
        assert await names(kube) == ["one"] * 3
        later(monkeypatch, minutes=2)
        assert await names(kube) == ["two"] * 3
        assert (await kube.credentials()).token == second

        (account / "token").unlink()
        later(monkeypatch, minutes=10)
        with pytest.raises(ApiUnavailable, match="token"):
            await kube.version()
        written(account / "token", "")
        with pytest.raises(ApiUnavailable, match="credentials: Token file exists but empty"):
            await kube.version()
        written(account / "token", second)
        assert await names(kube) == ["two"] * 3
    finally:
        await kube.close()
        await asyncio.sleep(0.05)
        api.delete(f"/api/v1/namespaces/{namespace}")


async def names(kube):
    """Return as whom a request, a watch and another client's credentials are seen."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = await kube._transport.request("POST", path, body=review)
    seen = [answer["status"]["userInfo"]["username"]]
    with pytest.raises(Forbidden) as caught:
        await anext(kube.watch("/api/v1/secrets", {}, "0", metadata_only=True))
    seen.append(str(caught.value).partition('User "')[2].partition('"')[0])
    token = (await kube.credentials()).token
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    seen.append(claims["sub"])
    return [name.rpartition(":")[2] for name in seen]


def later(monkeypatch, *, minutes):
    """Let the loader's clock be ahead."""
    ahead = SimpleNamespace(now=lambda: datetime.datetime.now() + datetime.timedelta(minutes=minutes))  # noqa: DTZ005
    monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=ahead, timedelta=datetime.timedelta))
