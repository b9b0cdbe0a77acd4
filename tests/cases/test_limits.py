"""Case 36: a release that is too big for its record."""

import json
import os
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


HOOKS = """\
{{- range $i := until (int .Values.hooks) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "fat-hook-{{ $i }}", annotations: {helm.sh/hook: pre-install}}
{{- end }}
"""


@pytest.mark.parametrize(
    ("size", "hooks"),
    [
        pytest.param(1_200_000, 0, id="far over the limit"),
        # Helm begins it, cannot write down that the hooks have run, says that all is well, and leaves it pending.
        pytest.param(781_500, 30, id="under the limit before the action, over it behind"),
    ],
)
def test_a_chart_that_does_not_fit_is_refused_before_anything_is_written_and_heals_when_it_shrinks(
    make_lab, size, hooks
):
    lab = make_lab("36")
    blob = lab.folder / "chart" / "blob.bin"
    blob.write_bytes(os.urandom(size))
    lab.write("chart/templates/hooks.yaml", HOOKS)
    lab.start()
    lab.create()
    lab.set_spec("fat", {"maps": 1, "hooks": hooks})
    lab.reaches("fat", Deployed="False", ReleaseFailed="True", Irreconcilable="True", Stalled="True", timeout=60)
    message = lab.conditions("fat")["Irreconcilable"]["message"]
    for part in (LIMIT, f"blob.bin ({size} bytes)", "Nothing was changed", ".helmignore"):
        assert part in message
    assert lab.conditions("fat")["Irreconcilable"]["reason"] == "ReleaseTooLarge"
    time.sleep(5)
    assert lab.records("fat") == []
    _has_maps(lab, 0)
    assert len(lab.helm_runs()) <= 2  # No retries: at most a dry run for each of the two specs.

    blob.write_bytes(os.urandom(1000))
    lab.deployed("fat", revision=1, timeout=30)
    _has_maps(lab, 1 + hooks)

    blob.write_bytes(os.urandom(size))
    lab.reaches("fat", Deployed="True", ReleaseFailed="True", Irreconcilable="True", says=[LIMIT], timeout=30)
    assert lab.records("fat") == [(1, "deployed")]
    blob.unlink()
    lab.deployed("fat", revision=2, timeout=30)
    lab.delete("fat")
    lab.gone("fat")
