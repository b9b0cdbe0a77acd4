"""Fixtures of the tests that need a cluster or a helm."""

import os
import uuid
from pathlib import Path

import pytest

from tests.cluster import Api, kubeconfig
from tests.lab import Lab


@pytest.fixture
def api():
    return Api(kubeconfig())


@pytest.fixture(scope="session")
def helm4():
    return _helm("HELM_OPERATOR_HELM4")


@pytest.fixture(scope="session")
def helm3():
    return _helm("HELM_OPERATOR_HELM3")


@pytest.fixture
def make_lab(tmp_path, request):
    """Make labs that are torn down again; the operator's log is shown with a failed test."""
    labs = []

    def make(case=None, *, crd="crd.yaml", helm=None):
        unique = uuid.uuid4().hex[:6]
        folder = tmp_path / f"lab-{unique}"
        folder.mkdir()
        lab = Lab(folder, f"lab-{unique}", helm or _helm("HELM_OPERATOR_HELM4"), kubeconfig=kubeconfig())
        labs.append(lab)
        if case is not None:
            lab.take(case)
        if crd is not None and case is not None:
            lab.install_crd(crd)
        return lab

    yield make
    for lab in labs:
        lab.close()
        print(f"--- the operator's log in {lab.namespace}\n{lab.log[-20000:]}")


def _helm(variable):
    path = os.environ.get(variable)
    assert path, f"{variable} is not set: run the tests by `make test`"
    assert Path(path).name == "helm", f"{variable}: the file must be named helm, or Helm writes under another manager"
    return path
