"""One cluster with nodes, the operator installed by its chart, and the quickstart, for the whole run.

`python -m e2e.nodes` runs these. They are collected only if SLUICEGATE_NODES is set, which names the level.
"""

import os
import time
from collections.abc import Generator, Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.disclosure.outputs import Outputs
from e2e.disclosure.recorder import Recorder
from e2e.nodes.site.diagnosis import diagnosis
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.levels import LEVEL_VARIABLE, ignored, place
from e2e.nodes.site.readme import followed
from e2e.nodes.site.shop import NodeShop, install_operator
from e2e.nodes.site.traffic import traffic
from e2e.world.operator_process import OPERATOR_NAMESPACE, REPOSITORY
from tests.support.obtain.helm import RELEASE, helm
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

collect_ignore_glob = ignored(os.environ.get(LEVEL_VARIABLE, ""))
OBSERVERS = REPOSITORY / "examples" / "observers"
_figures = Figures()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.path.stem))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("the cluster", diagnosis(Kube())))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _figures.lines():
        terminalreporter.write_line(f"figure {line}")
    _figures.write()


@pytest.fixture(scope="session")
def figures() -> Figures:
    return _figures


@pytest.fixture(scope="session", autouse=True)
def recorded(outputs: Outputs) -> Iterator[None]:
    """Record the whole run. At its end, no generated secret may be in any output."""
    with Recorder(["kubectl"], outputs, logs=True):
        yield
    _figures.note("generated secrets that no output of the run shows", outputs.secrets)
    outputs.check()


@pytest.fixture(scope="session")
def kube() -> Kube:
    return Kube()


@pytest.fixture(scope="session")
def standing_shop(kube: Kube, figures: Figures) -> NodeShop:
    """The quickstart, installed with README's commands. A cluster of an earlier run is used unchanged."""
    kube.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    shop = NodeShop(kube)
    if RELEASE not in helm("list", "-n", OPERATOR_NAMESPACE, "-q").split():
        _install(shop, figures)
        kube.kubectl("delete", "-f", str(OBSERVERS))
    # From here on the operator has the suite's settings: it looks for drift more often.
    install_operator()
    return shop


def _install(shop: NodeShop, figures: Figures) -> None:
    began_s = time.monotonic()
    for command in followed(REPOSITORY / "README.md"):
        if command.startswith("helm install"):
            figures.note("helm install until the operator is ready, s", time.monotonic() - began_s)
        elif command.startswith("kubectl wait"):
            with traffic(shop) as load:
                wait_for("an acknowledgement", lambda: load.count > 0, interval_s=0.02)
                figures.note("helm install until the first acknowledgement, s", time.monotonic() - began_s)


@pytest.fixture
def shop(standing_shop: NodeShop) -> NodeShop:
    """The standing cluster, settled before each test regardless of the previous one."""
    standing_shop.settle()
    return standing_shop


@pytest.fixture
def load(shop: NodeShop, request: pytest.FixtureRequest, figures: Figures) -> Iterator[AcknowledgedWorkload]:
    """A producer and a consumer during the whole test; the cluster is settled again before they are checked."""
    with traffic(shop) as load:
        wait_for("an acknowledgement", lambda: load.count > 0, interval_s=0.02)
        # Ignore the gap before the first acknowledgement: the client looked for brokers and got a producer ID.
        load.longest_gap_s = 0.0
        yield load
        shop.await_settled()
    figures.note(f"longest gap of the producer in {request.node.name}, s", load.longest_gap_s)
