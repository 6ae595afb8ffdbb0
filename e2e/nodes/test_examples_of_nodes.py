"""The parts of examples/README.md that take several nodes, the images of the audit log, or minutes, word by word."""

from pathlib import Path

from e2e.nodes.site.figures import Figures
from e2e.nodes.site.followed_page import followed_page
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.shop import NodeShop


def test_high_availability_takes_the_place_of_the_quickstart(
    shop: NodeShop, kube: Kube, figures: Figures, tmp_path: Path
) -> None:
    with followed_page(kube, "available", tmp_path) as page:
        page.follow("quickstart")
        page.follow("high-availability")
        figures.note("the commands of examples/README.md, high-availability, s", page.took_s["high-availability"])
        racks = {broker["status"]["rack"] for broker in page.namespace.items("br")}
        assert len(racks) == 3
        assert all(rack in page.said["high-availability"] for rack in racks)
        [cluster] = page.namespace.items("bc")
        assert cluster["spec"]["controllers"]["replicas"] == 3
        [topic] = page.namespace.items("tp")
        assert topic["status"]["replicas"] == 3


def test_the_audit_log_is_landed_and_answered(shop: NodeShop, kube: Kube, figures: Figures, tmp_path: Path) -> None:
    with followed_page(kube, "answered", tmp_path) as page:
        page.follow("audited")
        figures.note("the commands of examples/README.md, audited, s", page.took_s["audited"])
        [pipeline] = page.namespace.items("ap")
        assert pipeline["status"]["lastRun"]["state"] == "Succeeded"
        assert pipeline["status"]["reportLocation"] in page.said["audited"]
