"""Pictures of the chart's dashboards: `python -m e2e.world.dashboard_images` writes them to docs/images.

The program starts a cluster of real processes, with traffic, a storm and a broker that is deleted. It sends the query
of each panel to the cluster's Prometheus. It takes three minutes.
"""

import io
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from PIL import Image

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from e2e.world.monitoring import (
    SCRAPE_S,
    TARGETS,
    MonitoredRun,
    make_a_storm,
    next_scrape,
    observed,
    produce_and_consume,
    prometheus_over,
)
from e2e.world.operator_process import OPERATOR_NAMESPACE, OperatorProcess
from e2e.world.scraping import write_targets
from e2e.world.shop import READY_TIMEOUT_S, Shop, install_crds
from tests.support.dashboards.dashboard_pictures import WIDTH_PX, Span, dashboard_page
from tests.support.dashboards.dashboards import read_dashboards
from tests.support.obtain.chromium import BrowserPage, running_chromium
from tests.support.processes.process_kubelet.api import Access
from tests.support.processes.process_kubelet.kubelet import ProcessKubelet

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
CALM_S, STORM_S = 30.0, 50.0
RATE_INTERVAL = "8s"
COLORS = 128
"""Number of colours: a picture has a third of the size, and looks the same."""


def main() -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluicegate-dashboards-")))
        shop = _shop(stack, folder)
        shop.settle()
        stack.enter_context(observed(shop))
        prometheus = stack.enter_context(prometheus_over(shop, folder / "prometheus"))
        start_s = time.time()
        produce_and_consume(shop, CALM_S)
        make_a_storm(shop, STORM_S)
        _lose_a_broker(shop, folder / "prometheus" / TARGETS)
        produce_and_consume(shop, CALM_S)
        next_scrape(prometheus)
        _draw(MonitoredRun(prometheus, start_s, time.time()), folder)
    return 0


def _shop(stack: ExitStack, folder: Path) -> Shop:
    plane = stack.enter_context(ControlPlane(folder / "plane"))
    install_crds(plane)
    plane.kubectl("create", "namespace", OPERATOR_NAMESPACE)
    access = Access(plane.url, str(plane.certificate), plane.token)
    kubelet = stack.enter_context(ProcessKubelet(access, folder / "kubelet"))
    operator = stack.enter_context(OperatorProcess(plane.kubeconfig, folder / "operator.log", "sluicegate-operator-0"))
    return Shop(plane, kubelet, operator)


def _lose_a_broker(shop: Shop, targets: Path) -> None:
    before = shop.pod(2).uid
    shop.plane.kubectl("delete", "pod", "shop-brokers-2", "--grace-period=0", "--force")
    wait_for(
        "the broker is back", lambda: shop.pod(2).uid != before and shop.all_brokers_ready(), timeout_s=READY_TIMEOUT_S
    )
    write_targets(shop.plane, targets)


def _draw(run: MonitoredRun, folder: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    span = Span(run.start_s, run.end_s, SCRAPE_S, RATE_INTERVAL)
    with running_chromium(folder / "profile") as browser:
        for dashboard in read_dashboards():
            path = folder / f"{dashboard['uid']}.html"
            path.write_text(dashboard_page(dashboard, run.prometheus, span), encoding="utf-8")
            page = BrowserPage(browser, path, WIDTH_PX, "dark")
            picture = Image.open(io.BytesIO(page.picture()))
            picture.quantize(COLORS).save(IMAGES / f"dashboard-{dashboard['uid']}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
