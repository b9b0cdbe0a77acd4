"""Case 36: a release that is too big for its record."""

import json
import time
from pathlib import Path

import pytest

from tests.cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.helm, pytest.mark.timeout(240)]

LIMIT = "1048576"


def test_case_36_a_release_over_the_limit_is_refused_in_few_words(make_lab):
    lab = make_lab("36")
    operator = lab.start()
    lab.create()
    lab.reaches("fat", Deployed="False", ReleaseFailed="True", says=[LIMIT], timeout=60)
    assert lab.conditions("fat")["ReleaseFailed"]["reason"] == "InstallError"
    time.sleep(20)
    assert lab.helm_runs().count("install") <= 5
    assert lab.records("fat") == []
    _has_maps(lab, 0)
    _is_small(lab)

    lab.set_spec("fat", {"maps": 1})
    lab.deployed("fat", revision=1, timeout=60)
    _has_maps(lab, 1)
    eventually(lambda: lab.stays_quiet("fat", periods=2), timeout=30)

    lab.set_spec("fat", {"maps": 8})
    lab.reaches("fat", Deployed="True", ReleaseFailed="True", says=[LIMIT, "Revision 1 stays deployed"], timeout=60)
    assert lab.conditions("fat")["ReleaseFailed"]["reason"] == "UpdateError"
    assert lab.conditions("fat")["Deployed"]["release"]["revision"] == 1
    time.sleep(10)
    _has_maps(lab, 1)
    _is_small(lab)
    assert lab.records("fat") == [(1, "deployed")]

    lab.set_spec("fat", {"maps": 2})
    lab.deployed("fat", timeout=60)
    _has_maps(lab, 2)
    _is_small(lab)
    assert _resident(operator.process.pid) < 400
    lab.delete("fat")
    lab.gone("fat")
    _has_maps(lab, 0)


def _has_maps(lab, count):
    names = [item["metadata"]["name"] for item in lab.api.items(lab.core("configmaps"))]
    assert len([name for name in names if name.startswith("fat-")]) == count


def _is_small(lab):
    assert len(json.dumps(lab.cr("fat"))) < 65_536
    for entry in lab.conditions("fat").values():
        assert len(entry["message"].encode()) <= 4096


def _resident(pid):
    """Return a process's memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")
