"""The corpus before the real kstatus: where it is of another mind, the corpus must say so, and why.

`make test` builds the judge. Alone: `make .judge/kstatus && KSTATUS_JUDGE=.judge/kstatus pytest <this file>`.
"""

import json
import os
import subprocess

import pytest

from helm_operator.health import Health
from tests.judge.corpus import CASES

JUDGE = os.environ.get("KSTATUS_JUDGE", "")
OURS = {
    "Current": Health.HEALTHY,
    "InProgress": Health.PROGRESSING,
    "Terminating": Health.PROGRESSING,
    "Failed": Health.UNHEALTHY,
}


@pytest.fixture(scope="module")
def judged():
    objects = "\n".join(json.dumps(case.item) for case in CASES)
    done = subprocess.run([JUDGE], input=objects, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(not JUDGE, reason="KSTATUS_JUDGE does not name the judge")
def test_kstatus_agrees_but_for_the_differences_that_the_corpus_lists(judged):
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
