"""`helm upgrade` from an earlier chart and image, and back, while records are produced and consumed."""

import time
from pathlib import Path

from e2e.cluster.waiting import wait_for
from e2e.kind.provider import provider
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.previous import VERSION, previous
from e2e.nodes.site.shop import BROKER_PODS, NodeShop, install_operator
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import ROLLED_TIMEOUT_S
from tests.support.obtain.helm import RELEASE, helm
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

GAP_MAX_S = 5.0
"""The target is half a second, and the measured gap is a figure; this bound allows for a loaded machine."""


def images(shop: NodeShop) -> set[str]:
    """Return the image tags of the pods of the operator and the brokers that are not being deleted."""
    pods = [*shop.operator_pods(), *shop.plane.get("pods", "-l", BROKER_PODS)["items"]]
    return {
        container["image"].rpartition(":")[2]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        for container in pod["spec"]["containers"]
    }


def await_image(shop: NodeShop, version: str) -> None:
    def look() -> bool:
        found = images(shop)
        assert found == {version}, f"images {found}"
        return True

    wait_for(f"all run {version}", look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.3)
    shop.await_settled()


def install_previous(chart: Path) -> None:
    options = ("--set", f"image.tag={VERSION}", "--set", "settings.resyncSeconds=3", "--wait")
    helm("upgrade", RELEASE, str(chart), "-n", OPERATOR_NAMESPACE, "--reset-values", *options)


def test_back_to_the_previous_chart_and_image_and_up_again_under_traffic(
    shop: NodeShop, load: AcknowledgedWorkload, figures: Figures
) -> None:
    """Go back first, because the suite installs today's version.

    So today's brokers are followed by earlier ones, and these by today's, on the same volumes.
    """
    [today] = images(shop)
    earlier = previous()
    provider().load(earlier.archive)
    began_s = time.monotonic()
    install_previous(earlier.chart)
    await_image(shop, VERSION)
    figures.note("helm upgrade back until all brokers are rolled, s", time.monotonic() - began_s)
    began_s = time.monotonic()
    install_operator()
    await_image(shop, today)
    figures.note("helm upgrade until all brokers are rolled, s", time.monotonic() - began_s)
    assert load.longest_gap_s < GAP_MAX_S
