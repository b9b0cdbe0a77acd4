"""The corpus before the real kstatus: where it is of another mind, the corpus must say so, and why.

`make test` builds the judge. Alone: `make .judge/kstatus && KSTATUS_JUDGE=.judge/kstatus pytest <this file>`.
"""

import json
import os
import subprocess

import pytest

from helm_operator.errors import RetryableError, TerminalError
from helm_operator.health import Health
from helm_operator.status import Outcome, build_status
from tests.builders import BROKEN, GOOD, HEALTHY, NOW, ROLLING, failed, in_sync, outcome
from tests.judge.corpus import CASES

JUDGE = os.environ.get("KSTATUS_JUDGE", "")
OURS = {
    "Current": Health.HEALTHY,
    "InProgress": Health.PROGRESSING,
    "Terminating": Health.PROGRESSING,
    "Failed": Health.UNHEALTHY,
}

# Our own custom resources: what came of a pass, and kstatus' word for it.
OWN = {
    "healthy": in_sync(health=HEALTHY),
    "rolling out": in_sync(health=ROLLING),
    "broken": in_sync(health=BROKEN),
    "just upgraded": outcome(),
    "a failed upgrade that is tried again": failed(),
    "retries used up": failed(next_attempt_at=None),
    "values that cannot be right": outcome(
        action=None, desired=None, decision=None, error=TerminalError("spec is a list", reason="InvalidValues")
    ),
    "an API server that does not answer": Outcome(
        generation=7, error=RetryableError("nobody answers", reason="ApiUnavailable")
    ),
}
OWN_WORDS = {
    "healthy": "Current",
    "rolling out": "InProgress",
    "broken": "InProgress",  # kstatus has no word for what is broken and may mend itself.
    "just upgraded": "InProgress",
    "a failed upgrade that is tried again": "InProgress",
    "retries used up": "Failed",
    "values that cannot be right": "Failed",
    "an API server that does not answer": "InProgress",
}


def _custom_resource(result):
    status = build_status(GOOD, result, NOW + 60)
    metadata = {"name": "web", "namespace": "shop", "generation": result.generation}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "status": status}


needs_judge = pytest.mark.skipif(not JUDGE, reason="KSTATUS_JUDGE does not name the judge")


def judge(items):
    objects = "\n".join(json.dumps(item) for item in items)
    done = subprocess.run([JUDGE], input=objects, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_judge
def test_kstatus_agrees_but_for_the_differences_that_the_corpus_lists():
    judged = judge(case.item for case in CASES)
    assert len(judged) == len(CASES)
    wrong = {}
    for case, answer in zip(CASES, judged, strict=True):
        word = "error" if "error" in answer else answer["status"]
        if word != case.kstatus if case.kstatus else OURS.get(word) is not case.health:
            wrong[case.says] = (case.health, case.kstatus, answer)
    assert not wrong


def test_each_difference_is_one_and_has_its_reason():
    for case in CASES:
        assert bool(case.kstatus) == bool(case.why), case.says
        assert OURS.get(case.kstatus) is not case.health, case.says


@needs_judge
def test_kstatus_judges_our_own_custom_resources_as_they_are():
    items = [_custom_resource(result) for result in OWN.values()]
    judged = dict(zip(OWN, judge(items), strict=True))
    assert {name: answer["status"] for name, answer in judged.items()} == OWN_WORDS


@needs_judge
def test_kstatus_waits_for_a_generation_that_no_pass_has_worked_on():
    item = _custom_resource(OWN["healthy"])
    item["metadata"]["generation"] += 1
    assert judge([item])[0]["status"] == "InProgress"
