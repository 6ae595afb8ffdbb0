"""The commands of docs/first-hour/laptop.md, word by word, from nothing to a limited listener under a storm."""

import re
from pathlib import Path

import pytest

from tests.support.pages.checkout import ROOT, checkout
from tests.support.pages.storm_table import accepted
from tests.support.pages.terminals import Terminals
from tests.support.processes.local_fleet import edit
from tests.support.processes.ports import free_port

pytestmark = pytest.mark.full

PAGE = ROOT / "docs" / "first-hour" / "laptop.md"
UP, STORM = "sluicegate up", "sluicegate storm"
CONTINUING = {UP: "ready; Ctrl-C stops everything", STORM: ""}
SCREENS = {"sluicegate top": "listener EXTERNAL"}
STOP = "\n## Stop\n"
LIMIT, NEW_LIMIT, STORM_S = 50, 200, 60


def test_the_page_leads_to_a_limited_listener_under_a_storm(tmp_path: Path) -> None:
    clone = checkout(tmp_path / "clone")
    edit(clone / "examples" / "quickstart" / "listener.yaml", "port: 9094", f"port: {free_port()}")
    page, stop, end = PAGE.read_text(encoding="utf-8").partition(STOP)
    with Terminals(clone, CONTINUING, SCREENS) as terminals:
        terminals.follow(page)
        assert "0 problems" in terminals.output("sluicegate doctor")
        assert re.search(rf"listener EXTERNAL +0 +{LIMIT} ", terminals.output("sluicegate quotas"))
        assert "default/shop-noisy-neighbour" in terminals.output("sluicegate why 127.0.1.7")
        terminals.until(UP, f"listener EXTERNAL {LIMIT}/s -> {NEW_LIMIT}/s\nshop: enforced on 3/3 brokers")
        # More than the first limit admits, and less than the storm attempts.
        assert 1.2 * LIMIT * STORM_S < accepted(terminals.ended(STORM)) < 1.2 * NEW_LIMIT * STORM_S
        assert stop, "the page has a section Stop"
        assert terminals.interrupt(UP).rstrip().endswith("every process has ended")
        terminals.follow(end)
        assert not (clone / "my-cluster").exists()
