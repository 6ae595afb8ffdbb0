"""The audit log as brokers load it: its boots, its account of partitions, its end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.spool.events import events_of
from audit_pipeline.spool.spool_folder import boots, spools_of
from broker_runtime.apis.request.call import Ending
from broker_runtime.exposition import render
from broker_runtime.observers.audit_log.observer import AuditLogObserver, new_boot_id
from broker_runtime.observers.surroundings import BrokerFacts, HostedPartition
from tests.support.audit.audit import ManualTimers, ended_call
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.calls import NotedConnection


class Bench:
    """A broker with partitions, and nothing else."""

    def __init__(self, log_dir: Path, partitions: int = 0) -> None:
        self.log_dir = log_dir
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.held = [HostedPartition("orders", number, 10, 0, 5, True) for number in range(partitions)]

    def loaded(self, **config: str) -> AuditLogObserver:
        observer = AuditLogObserver()
        observer.attach(
            BrokerFacts(
                7, "cluster", str(self.log_dir), self.clock, lambda call: call(), self.timers.call_later,
                lambda: iter(self.held), lambda: (8, 12, 7),
            )
        )  # fmt: skip
        observer.configure({key.replace("_", "."): text for key, text in config.items()})
        return observer

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        folder = self.log_dir / "audit"
        return [
            event
            for boot_id in boots(folder)
            for spool in spools_of(folder, boot_id)
            for block in spool.content.blocks
            for event in events_of(spool.content.header, block)
        ]


def test_a_later_boot_is_greater_as_text_whatever_the_clock_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.loaded().close(1)
    bench.clock.jump(-3600)
    (tmp_path / "audit" / "lander").touch()
    (tmp_path / "audit" / "somebody-elses.lock").touch()
    second = bench.loaded()
    second.record_call(ended_call(3, NotedConnection(), bench.clock.monotonic(), (), Ending.ANSWERED, None))
    second.close(1)
    first_boot, second_boot, _ = boots(tmp_path / "audit")
    assert [event["boot_id"] for _, event in bench.events()] == [second_boot]
    assert first_boot < second_boot


def test_boots_have_the_time_in_them_and_are_all_different() -> None:
    one, other = new_boot_id(0x0123456789AB, ()), new_boot_id(0x0123456789AB, ())
    assert one[:12] == other[:12] == "0123456789ab"
    assert one != other


def test_all_partitions_are_told_a_hundred_a_turn_and_again_after_an_hour(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=250)
    observer = bench.loaded()
    bench.timers.advance(0.2)
    assert [event["partition"] for _, event in bench.events()] == list(range(250))
    bench.timers.advance(3599)
    assert len(bench.events()) == 250
    bench.timers.advance(2)
    assert len(bench.events()) == 500
    observer.close(1)
    bench.timers.advance(7200)
    assert len(bench.events()) == 500


def test_spools_are_written_to_the_configured_folder(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "data")
    bench.loaded(spool_dir=str(tmp_path / "elsewhere")).close(1)
    assert len(boots(tmp_path / "elsewhere")) == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("queue_full", "rejects"), [("permit", False), ("reject", True)])
def test_the_log_rejects_requests_only_if_configured(tmp_path: Path, queue_full: str, rejects: bool) -> None:
    observer = Bench(tmp_path).loaded(queue_full=queue_full)
    call = ended_call(3, NotedConnection(), 0, (), Ending.ANSWERED, None)
    assert (observer.rejects, observer.refuses(call)) == (rejects, False)
    assert "sluicegate_audit_events_total 0.0" in render(observer.collect()).decode()
