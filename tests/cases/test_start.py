"""Case 44: mistakes in watches.yaml and in charts are told at start, all of them, and nothing runs."""

import os
import subprocess
import sys

import pytest

from tests.lab import FILES

ENTRY = "group: lab.example.com, version: v1alpha1, kind: Widget"
GOOD = f"{{{ENTRY}, chart: ./chart}}"

MISTAKES = {
    "the file is missing": (None, ["watches.yaml"]),
    "the file is empty": ("", ["watches.yaml", "empty"]),
    "a map instead of a list": ("{}", ["watches.yaml:1", "list"]),
    "broken YAML": ("- kind: [\n", ["watches.yaml:", "YAML"]),
    "no kind": ("- {group: lab.example.com, version: v1alpha1, chart: ./chart}", ["entry 1", "kind"]),
    "no version": ("- {group: lab.example.com, kind: Widget, chart: ./chart}", ["entry 1", "version"]),
    "the same kind twice": (f"- {GOOD}\n- {GOOD}", ["watches.yaml:2", "entry 2", "Widget"]),
    "a chart that is not there": (f"- {{{ENTRY}, chart: ./nowhere}}", ["chart", "nowhere"]),
    "a library chart": (f"- {{{ENTRY}, chart: ./lib-chart}}", ["chart", "library"]),
    "a missing dependency": (f"- {{{ENTRY}, chart: ./hollow-chart}}", ["chart", "absent"]),
    "an unknown key": (
        f"- {{{ENTRY}, chart: ./chart, reconcilePeriods: 5s}}",
        ["reconcilePeriods", "reconcilePeriod?"],
    ),
    "a period that is no duration": (
        f"- {{{ENTRY}, chart: ./chart, reconcilePeriod: soon}}",
        ["reconcilePeriod", "soon"],
    ),
    "a negative period": (f"- {{{ENTRY}, chart: ./chart, reconcilePeriod: -5s}}", ["reconcilePeriod", "-5s"]),
    "a kind in lower case": (
        "- {group: lab.example.com, version: v1alpha1, kind: widget, chart: ./chart}",
        ["kind", "widget"],
    ),
    "a selector with a bad operator": (
        f"- {{{ENTRY}, chart: ./chart, selector: {{matchExpressions: [{{key: a, operator: Near}}]}}}}",
        ["selector", "Near"],
    ),
    "two documents": (f"- {GOOD}\n---\n- {GOOD}\n", ["document"]),
    "overrides as a list": (f"- {{{ENTRY}, chart: ./chart, overrideValues: [a]}}", ["overrideValues"]),
    "a key twice": (f"- {{{ENTRY}, chart: ./chart, chart: ./chart}}", ["chart", "twice"]),
}


def run(command, folder):
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "KUBECONFIG": "/nowhere"}  # noqa: PTH109
    return subprocess.run(
        [sys.executable, "-m", "helm_operator", command, f"--watches-file={folder / 'watches.yaml'}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
        env=environment,
        cwd=folder,
    )


@pytest.fixture
def folder(tmp_path):
    import shutil

    shutil.copytree(FILES / "44", tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(("text", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_case_44_a_mistake_ends_run_with_its_place(folder, text, says):
    (folder / "watches.yaml").unlink()
    if text is not None:
        (folder / "watches.yaml").write_text(text)
    done = run("run", folder)
    assert done.returncode == 2, done.stderr
    for part in says:
        assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_case_44_all_mistakes_are_told_at_once_and_check_says_the_same(folder):
    texts = [text for text, says in MISTAKES.values() if text and says[0] == "chart"]
    entries = "\n".join(text.replace("Widget", f"Widget{number}") for number, text in enumerate(texts))
    (folder / "watches.yaml").write_text(entries)
    checked, started = run("check", folder), run("run", folder)
    assert checked.returncode == started.returncode == 2
    assert len(checked.stderr.splitlines()) == len(texts)
    assert checked.stderr.splitlines() == [line for line in started.stderr.splitlines() if not line.startswith("{")]


def test_case_44_an_anchor_for_two_entries_is_fine_and_check_needs_no_cluster(folder):
    text = f"- &one {GOOD}\n- {{<<: *one, kind: Gadget}}\n"
    (folder / "watches.yaml").write_text(text)
    done = run("check", folder)
    assert done.returncode == 0, done.stderr
    assert "2 watches" in done.stdout
