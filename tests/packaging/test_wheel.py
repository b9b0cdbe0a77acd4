"""What is shipped: the wheel by itself, in an environment of locked packages, on a file system that is read-only."""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from helm_operator import __version__, cli
from tests.cluster import kubeconfig

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def instructions(name):
    return re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)


def copied():
    """Return the files and folders of this repository that the Dockerfile takes."""
    lines = [line.split() for line in instructions("COPY") if not line.startswith("--from")]
    return [source for line in lines for source in line[:-1]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel as the image does: from the copied files alone."""
    source = tmp_path_factory.mktemp("source")
    for name in copied():
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source)
    ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist", cwd=source)
    (found,) = (source / "dist").iterdir()
    return found


def ran(*command, **kwargs):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert wheel.name == f"helm_operator-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"helm_operator-{__version__}.dist-info"
        entries = configparser.ConfigParser()
        entries.read_string(archive.read(f"{info}/entry_points.txt").decode())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "helm_operator").rglob("*") if path.is_file()}
    modules = {name for name in modules if "__pycache__" not in name}

    assert {name for name in names if not name.startswith(info)} == modules
    assert f"{info}/licenses/LICENSE" in names
    assert dict(entries["console_scripts"]) == {"helm-operator": "helm_operator.cli:main"}


def test_the_dockerfile_names_what_there_is():
    assert set(copied()) >= {"requirements/", "helm_operator/", "pyproject.toml"}
    for name in copied():
        assert (ROOT / name).exists(), f"COPY {name}"
    for name in re.findall(r"-r (requirements/\S+)", DOCKERFILE):
        assert (ROOT / name).is_file()
    assert instructions("ENTRYPOINT") == ['["helm-operator"]']
    go = (ROOT / "tools/localcluster/modules/helm4/go.mod").read_text()
    assert re.search(r"helm\.sh/helm/v4 v4\.\d+\.\d+", go)
    assert f"helm-operator:{__version__}" in DOCKERFILE


def test_the_images_python_is_one_that_the_package_runs_on():
    (image,) = re.findall(r"^ARG PYTHON=python:3\.(\d+)-", DOCKERFILE, re.MULTILINE)
    (least,) = re.findall(r'^requires-python = ">=3\.(\d+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert int(image) >= int(least)


def test_the_images_command_is_one_that_the_command_line_reads():
    (command,) = instructions("CMD")
    options = cli._parser().parse_args(cli._with_command(json.loads(command)))
    assert str(options.watches_file) == "/opt/helm/watches.yaml"
    assert "HOME=/opt/helm" in instructions("ENV")[-1]


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt"])
def test_every_package_is_locked_by_version_and_hash(name):
    text = re.sub(r"\\\n", " ", (ROOT / "requirements" / name).read_text())
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert lines
    for line in lines:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+( ;.*?)? +--hash=sha256:[0-9a-f]{64}", line), line[:80]


def read_only():
    """Return a prefix that runs a command with all files read-only but those in TMPDIR; empty where that cannot be."""
    script = 'mount --make-rprivate / && mount --bind "$TMPDIR" "$TMPDIR" && mount -o remount,bind,ro / && '
    script += 'for m in /tmp /root /var /home; do ! mountpoint -q $m || mount -o remount,bind,ro $m; done; exec "$@"'
    for flags in (["--mount"], ["--mount", "--map-root-user"]):
        prefix = ["unshare", *flags, "sh", "-ec", script, "sh"]
        try:
            subprocess.run([*prefix, "true"], check=True, capture_output=True, env={**os.environ, "TMPDIR": "/mnt"})
        except (OSError, subprocess.CalledProcessError):
            continue
        return prefix
    return []


def tree(*folders):
    """Return all files with the time of their last change."""
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return {path: path.lstat().st_mtime_ns for path in paths}


@pytest.mark.cluster
@pytest.mark.helm
@pytest.mark.timeout(300)
def test_the_wheel_runs_alone_and_writes_nothing_outside_of_tmpdir(wheel, tmp_path, make_lab, helm4):
    venv = tmp_path / "venv"
    ran(sys.executable, "-m", "venv", "--without-pip", venv)
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "--quiet", "--disable-pip-version-check"]
    ran(*pip, "install", "--require-hashes", "--no-deps", "--no-compile", "-r", ROOT / "requirements" / "runtime.txt")
    ran(*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel)
    ran(*pip, "check")

    lab = make_lab("27")
    elsewhere, temporary = tmp_path / "elsewhere", tmp_path / "tmp"
    elsewhere.mkdir()
    temporary.mkdir()
    watches = f"--watches-file={lab.folder / 'watches.yaml'}"
    env = {
        "PATH": f"{venv / 'bin'}:{Path(helm4).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path / "no-home"),
        "TMPDIR": str(temporary),
        "KUBECONFIG": kubeconfig(),
        "WATCH_NAMESPACE": lab.namespace,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    started = {"cwd": elsewhere, "env": env}
    prefix = read_only()
    before = tree(elsewhere, lab.folder, venv)

    assert "no mistakes found" in ran(*prefix, venv / "bin" / "helm-operator", "check", watches, **started)
    assert ran(venv / "bin" / "helm-operator", "version", **started).startswith(f"helm-operator {__version__}, ")
    command = [*prefix, venv / "bin" / "helm-operator", watches, "--health-probe-bind-address=0"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, **started)
    try:
        lab.create()
        lab.deployed("calm", revision=1, timeout=30)
        lab.delete("calm")
        lab.gone("calm")
    finally:
        process.terminate()
        code = process.wait(30)
        print((tmp_path / "log").read_text())
    assert code == 0
    assert tree(elsewhere, lab.folder, venv) == before
    assert not (tmp_path / "no-home").exists()
    assert list(temporary.iterdir()) == []
    assert "Read-only" not in (tmp_path / "log").read_text()
