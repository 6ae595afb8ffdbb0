"""The audit log as brokers load it: its boots, its account of partitions, its end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.spool.events import events_of
from audit_pipeline.spool.spool_folder import boots, spools_of
from broker_runtime.apis.request.call import Ending
from broker_runtime.exposition import render
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.node.metadata_before import MetadataNow
from broker_runtime.observers.audit_log.observer import AuditLogObserver, new_boot_id
from broker_runtime.observers.surroundings import BrokerFacts, HostedPartition
from tests.support.audit.audit import ManualTimers, ended_call
from tests.support.audit.limits import NoLimits
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.calls import NotedConnection


class Bench:
    """A broker with partitions, and nothing else."""

    def __init__(self, log_dir: Path, partitions: int = 0) -> None:
        self.log_dir = log_dir
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.registered = [8, 12, 7]
        self.limits = NoLimits()
        self.held = [HostedPartition("orders", number, 10, 0, 5, True) for number in range(partitions)]

    def loaded(self, **config: str) -> AuditLogObserver:
        observer = AuditLogObserver()
        observer.attach(
            BrokerFacts(
                7, "cluster", str(self.log_dir), self.clock, lambda call: call(), self.timers.call_later,
                lambda: iter(self.held), lambda: self.registered, lambda: MetadataNow(MetadataImage()), self.limits,
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


def test_all_partitions_are_told_a_hundred_a_time_slice_and_again_after_ten_minutes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=250)
    observer = bench.loaded()
    bench.timers.advance(0.2)
    assert [event["partition"] for _, event in bench.events()] == list(range(250))
    assert {event["registered_brokers"] for _, event in bench.events()} == {"7,8,12"}
    bench.timers.advance(599)
    alive = [event["partition"] for _, event in bench.events()][250:]
    assert alive == [0] * 9, "one partition every minute (segment.ms) shows that the broker runs"
    bench.timers.advance(10)
    assert [event["partition"] for _, event in bench.events()][259:] == list(range(250))
    observer.close(1)
    bench.timers.advance(7200)
    assert len(bench.events()) == 509


def test_a_change_of_a_partition_is_told_within_seconds_and_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=3)
    bench.loaded()
    bench.timers.advance(0.2)

    def told() -> list[tuple[str, int, bool, bool]]:
        bench.timers.advance(6)
        names = ("topic", "partition", "is_leader", "is_deleted")
        found = [tuple(event[name] for name in names) for _, event in bench.events()]
        return found[before:]

    before = 3
    bench.held.append(HostedPartition("payments", 0, 0, 0, 0, False))
    assert told() == [("payments", 0, False, False)]
    before = 4
    bench.held[0] = bench.held[0]._replace(is_leader=False)
    assert told() == [("orders", 0, False, False)]
    before = 5
    del bench.held[1]
    assert told() == [("orders", 1, False, True)]
    before = 6
    assert told() == []


def test_all_partitions_are_told_again_when_the_registered_brokers_change(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=2)
    bench.loaded()
    bench.timers.advance(6)
    bench.registered.append(13)
    bench.timers.advance(6)
    assert [event["registered_brokers"] for _, event in bench.events()] == ["7,8,12"] * 2 + ["7,8,12,13"] * 2


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
