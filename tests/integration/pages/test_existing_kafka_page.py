"""The commands of docs/first-hour/existing-kafka.md, word by word, with Apache Kafka itself."""

from pathlib import Path

import pytest

from tests.support.pages.checkout import ROOT, checkout
from tests.support.pages.kafka_release import NAME, STARTED, kafka_release
from tests.support.pages.storm_table import accepted
from tests.support.pages.terminals import Terminals
from tests.support.processes.local_fleet import edit
from tests.support.processes.ports import free_port

pytestmark = pytest.mark.full

PAGE = ROOT / "docs" / "first-hour" / "existing-kafka.md"
KAFKA, UP, STORM = "bin/kafka-server-start.sh", "sluicegate up", "sluicegate storm"
CONTINUING = {KAFKA: STARTED, UP: "ready; Ctrl-C", STORM: ""}
SCREENS = {"sluicegate top": "ip 192.0.2.7"}
STOP = "\n## Stop\n"
ADDRESS = "localhost:9092"
LIMIT, NEW_LIMIT, RATE, STORM_S = 200, 400, 600, 40


def test_the_page_leads_to_a_limited_broker_under_a_storm(tmp_path: Path) -> None:
    here = f"localhost:{free_port()}"
    kafka_release(tmp_path, int(here.partition(":")[2]), free_port())
    clone = checkout(tmp_path / "clone")
    edit(clone / "examples" / "external" / "cluster.yaml", ADDRESS, here)
    page, stop, end = PAGE.read_text(encoding="utf-8").partition(STOP)
    assert NAME in page, "the page has the release of the tests"
    with Terminals(clone, CONTINUING, SCREENS, {ADDRESS: here}) as terminals:
        terminals.follow(page)
        assert "payments" in terminals.output("sluicegate status")
        terminals.until(UP, f"outside: broker {LIMIT}/s -> {NEW_LIMIT}/s\noutside: enforced on 1/1 brokers")
        assert f"max.connection.creation.rate={NEW_LIMIT} " in terminals.output("bin/kafka-configs.sh")
        assert "PartitionCount: 6" in terminals.output("bin/kafka-topics.sh")
        # More than the first limit admits, and less than the storm attempts.
        assert 1.2 * LIMIT * STORM_S < accepted(terminals.ended(STORM)) < 0.9 * RATE * STORM_S
        assert stop, "the page has a section Stop"
        terminals.follow(end)
        terminals.until(UP, f"outside: broker {NEW_LIMIT}/s -> ")
        assert terminals.interrupt(UP).rstrip().endswith("every process has ended")
