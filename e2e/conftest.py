"""One control plane, one kubelet, one operator and one cluster for the whole run; each test finds it settled."""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.binaries import binaries_folder
from e2e.cluster.control_plane import ControlPlane
from e2e.disclosure.outputs import Outputs
from e2e.disclosure.recorder import Recorder, logs_in
from e2e.world import used_rights
from e2e.world.engine_world import EngineWorld
from e2e.world.forked_operator import Forks
from e2e.world.operator_process import OPERATOR_NAMESPACE, OperatorProcess, operator_account
from e2e.world.shop import Shop, install_crds
from tests.support.processes.process_kubelet.api import Access
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet


@pytest.fixture(scope="session")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What the run shows. Tests add what neither an API server nor a log has."""
    return Outputs(tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="session")
def plane(outputs: Outputs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane. At its end, no generated secret may be in any output of the run."""
    with ControlPlane(audited=f"system:serviceaccounts:{OPERATOR_NAMESPACE}") as plane:
        # The namespace enforces the restricted profile, so the pods must satisfy it.
        plane.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted")
        install_crds(plane)
        kubectl = [str(binaries_folder() / "kubectl"), f"--kubeconfig={plane.kubeconfig}"]
        with Recorder(kubectl, outputs, logs=False):
            yield plane
        used_rights.keep(plane.audit_log)
        outputs.check([*logs_in(tmp_path_factory.getbasetemp()), plane.audit_log])


@pytest.fixture(scope="session")
def bare_plane() -> Iterator[ControlPlane]:
    """A control plane without operators, for tests that hinder their own operators."""
    with ControlPlane() as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with Forks() as forks:
        yield forks


@pytest.fixture
def world(
    bare_plane: ControlPlane, forks: Forks, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[EngineWorld]:
    """A separate namespace for the test, with played brokers."""
    said = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    name = f"{said[:40].strip('-')}-{zlib.crc32(said.encode()):08x}"
    with EngineWorld(bare_plane, forks, tmp_path, name) as world:
        yield world


@pytest.fixture(scope="session")
def kubelet(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessKubelet]:
    access = Access(plane.url, str(plane.certificate), plane.token)
    with ProcessKubelet(access, tmp_path_factory.mktemp("kubelet")) as kubelet:
        yield kubelet


@pytest.fixture(scope="session")
def operator_kubeconfig(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with exactly the rights that deploy/ gives to the operator."""
    return operator_account(plane, tmp_path_factory.mktemp("account"))


@pytest.fixture(scope="session")
def operator(operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with OperatorProcess(operator_kubeconfig, log, "operator-one") as operator:
        yield operator


@pytest.fixture(scope="session")
def standing_shop(plane: ControlPlane, kubelet: ProcessKubelet, operator: OperatorProcess) -> Shop:
    return Shop(plane, kubelet, operator)


@pytest.fixture
def shop(standing_shop: Shop) -> Shop:
    """The standing cluster, settled before each test regardless of the previous one."""
    standing_shop.settle()
    return standing_shop
