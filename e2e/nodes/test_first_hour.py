"""The commands of docs/first-hour/kind.md, word by word, after those that make the cluster and install the operator."""

import re
from pathlib import Path

from e2e.nodes.site.figures import Figures
from e2e.nodes.site.shop import NodeShop
from tests.support.pages.checkout import ROOT, checkout
from tests.support.pages.terminals import Terminals
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

PAGE = ROOT / "docs" / "first-hour" / "kind.md"
STORM = "sluicegate storm"
CONTINUING = {STORM: ""}
SCREENS = {"sluicegate top": "listener EXTERNAL"}
ENFORCED_MAX_S = 5.0
"""The target is a second, on separate nodes."""


def test_the_page_leads_to_a_limited_listener_under_a_storm(
    shop: NodeShop, load: AcknowledgedWorkload, figures: Figures, tmp_path: Path
) -> None:
    before = shop.running()
    with Terminals(checkout(tmp_path / "clone"), CONTINUING, SCREENS) as terminals:
        terminals.follow(PAGE.read_text(encoding="utf-8"))
        assert "0 problems" in terminals.output("sluicegate doctor")
        assert re.search(r"listener EXTERNAL +0 +50 ", terminals.output("sluicegate quotas"))
        took_s = float(terminals.output("kubectl get cq shop-external-rate -o jsonpath"))
        figures.note("first hour on kind: a changed limit until all brokers enforce it, s", took_s)
        assert took_s < ENFORCED_MAX_S
        assert "accepted" in terminals.ended(STORM)
    assert shop.running() == before
    assert load.failures == []
