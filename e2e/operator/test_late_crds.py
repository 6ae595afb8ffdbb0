"""An operator that starts before its CRDs, and keeps running while one of them is deleted.

It uses a separate control plane.
"""

import json
from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import OPERATOR_NAMESPACE, OperatorProcess
from e2e.world.shop import condition_of, install_crds, quota_document

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def bare_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.kubectl("create", "namespace", OPERATOR_NAMESPACE)
        yield plane


@pytest.fixture(scope="module")
def early(bare_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    log = tmp_path_factory.mktemp("early") / "operator.log"
    with OperatorProcess(bare_plane.kubeconfig, log, "operator-early") as operator:
        yield operator


def waits(operator: OperatorProcess, crd: str) -> int:
    """How often the operator logged that it waits for `crd`."""
    operator.must_run()
    return sum("CRDs are missing" in line and crd in line for line in operator.output().splitlines())


def await_judged(plane: ControlPlane, operator: OperatorProcess, name: str) -> None:
    """Wait until the operator reports that the quota's cluster is missing: it has reconciled the quota."""
    quota = quota_document(name, {"broker": {}}, maxConnections=10)
    plane.kubectl("apply", "-f", "-", input=json.dumps(quota))

    def judged() -> bool:
        operator.must_run()
        return condition_of(plane.get("connectionquota", name), "Ready").get("reason") == "ClusterMissing"

    wait_for(f"quota {name} is judged", judged, timeout_s=TIMEOUT_S)


def test_an_operator_started_before_its_crds_waits_for_them_and_continues(
    bare_plane: ControlPlane, early: OperatorProcess
) -> None:
    crd = "connectionquotas.sluicegate.dev"
    wait_for(f"the operator waits for {crd}", lambda: waits(early, crd), timeout_s=TIMEOUT_S)
    install_crds(bare_plane)
    await_judged(bare_plane, early, "first")


def test_a_crd_that_is_deleted_and_comes_back_ends_nothing(bare_plane: ControlPlane, early: OperatorProcess) -> None:
    install_crds(bare_plane)
    crd = "topics.sluicegate.dev"
    before = waits(early, crd)
    bare_plane.kubectl("delete", "crd", crd, "connectionquotas.sluicegate.dev")
    wait_for(f"the operator waits for {crd}", lambda: waits(early, crd) > before, timeout_s=TIMEOUT_S)
    install_crds(bare_plane)
    await_judged(bare_plane, early, "second")
