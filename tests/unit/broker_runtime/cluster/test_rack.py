"""The rack of a broker: from its file, waited for and never guessed."""

import asyncio
from pathlib import Path

import pytest

from broker_runtime.cluster.rack import RackUnknownError, with_rack
from broker_runtime.config import BrokerSettings, broker_settings
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run

TIMEOUT_S = 30.0


def settings(file: Path | None, **more: str) -> BrokerSettings:
    told = {} if file is None else {"sluicegate.broker.rack.file": str(file)}
    timeout = {"sluicegate.broker.rack.timeout.ms": str(round(TIMEOUT_S * 1000))}
    return broker_settings({"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092"} | told | timeout | more)


def rack_of(of: BrokerSettings) -> object:
    return of.config.broker_rack


def test_the_content_of_the_file_is_the_configured_rack(tmp_path: Path) -> None:
    file = tmp_path / "rack"
    file.write_text("zone-a\n")
    found = run(with_rack(settings(file), asyncio.Event()), ManualClock())
    assert (rack_of(found), found.given["broker.rack"]) == ("zone-a", "zone-a")
    assert found.node_id == 1


def test_without_a_file_nothing_is_waited_for() -> None:
    clock = ManualClock()
    before_s = clock.monotonic()
    by_hand = broker_settings({"node.id": "1", "broker.rack": "by-hand"})
    assert run(with_rack(by_hand, asyncio.Event()), clock) is by_hand
    assert rack_of(run(with_rack(settings(None), asyncio.Event()), clock)) is None
    assert clock.monotonic() == before_s


def test_a_controller_has_no_rack(tmp_path: Path) -> None:
    roles = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}
    of = settings(tmp_path / "absent", **roles)
    assert run(with_rack(of, asyncio.Event()), ManualClock()) is of


@pytest.mark.parametrize("before", ["", None], ids=["empty", "absent"])
def test_a_file_that_nobody_has_written_yet_is_waited_for(tmp_path: Path, before: str | None) -> None:
    file, clock = tmp_path / "rack", ManualClock()
    if before is not None:
        file.write_text(before)
    began_s = clock.monotonic()

    async def scene() -> BrokerSettings:
        waiting = asyncio.create_task(with_rack(settings(file), asyncio.Event()))
        await asyncio.sleep(TIMEOUT_S - 1)
        assert not waiting.done()
        file.write_text("b")
        return await waiting

    assert rack_of(run(scene(), clock)) == "b"
    assert clock.monotonic() - began_s < TIMEOUT_S


def test_a_file_that_stays_empty_ends_the_broker_with_what_to_do(tmp_path: Path) -> None:
    file, clock = tmp_path / "rack", ManualClock()
    file.write_text(" \n")
    began_s = clock.monotonic()
    with pytest.raises(RackUnknownError, match=r"empty after 30 s.*brokers\.rack\.topologyKey") as refusal:
        run(with_rack(settings(file), asyncio.Event()), clock)
    assert str(file) in str(refusal.value)
    assert clock.monotonic() - began_s == pytest.approx(TIMEOUT_S)


def test_a_broker_that_is_to_stop_waits_no_longer(tmp_path: Path) -> None:
    clock = ManualClock()
    began_s = clock.monotonic()

    async def scene() -> BrokerSettings:
        stop = asyncio.Event()
        waiting = asyncio.create_task(with_rack(settings(tmp_path / "rack"), stop))
        await asyncio.sleep(5)
        stop.set()
        return await waiting

    assert rack_of(run(scene(), clock)) is None
    assert clock.monotonic() - began_s == pytest.approx(5)


def test_a_file_that_cannot_be_read_is_no_reason_to_wait(tmp_path: Path) -> None:
    with pytest.raises(RackUnknownError, match="cannot be read"):
        run(with_rack(settings(tmp_path), asyncio.Event()), ManualClock())
