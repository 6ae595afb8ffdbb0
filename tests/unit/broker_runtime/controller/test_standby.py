"""Several controllers over one store: the active one, a deposed one's rights, and its successor's knowledge."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import pytest

from broker_runtime.controller.history import ReplayError
from broker_runtime.controller.service import ControllerService
from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from tests.support.fakes.journal_store import NO_FAULT, Fault
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.virtual_time import run
from tests.support.worlds.controllers import LEASE_MS, Standbys, write, written

LEASE_S = LEASE_MS / 1000


async def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - on virtual time
            await asyncio.sleep(0.01)


async def started(group: Standbys, *node_ids: int) -> list[ControllerService]:
    """Started controllers, the first of which is active."""
    found = [group.standby(node_id) for node_id in node_ids]
    for each in found:
        await each.start()
        await until(lambda: found[0].active)
    return found


async def refusal(controller: ControllerService) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await write(controller, 0)
    return refused.value.code


def test_one_is_active_and_a_stop_hands_over_at_the_next_look() -> None:
    async def main() -> None:
        one, two = await started(group, 1, 2)
        await write(one, 7)
        assert (one.active, two.active) == (True, False)
        assert await refusal(two) == ErrorCode.NOT_CONTROLLER
        await asyncio.sleep(LEASE_S * 3)
        assert one.active
        assert (two.active_controller_id, one.active_controller_id) == (1, 1)
        stopped_s = clock.monotonic()
        await one.stop()
        await until(lambda: two.active)
        assert clock.monotonic() - stopped_s < LEASE_S / 2
        assert written(two) == "7"
        assert (two.image.cluster.controller_epoch, two.image.cluster.controller_id) == (2, 2)
        await two.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)


def test_a_silent_one_is_succeeded_and_never_serves_beside_the_next() -> None:
    async def main() -> None:
        one, two = await started(group, 1, 2)
        await write(one, 7)
        group.stores[1].cut = True
        cut_s = clock.monotonic()
        waiting = asyncio.ensure_future(write(one, 8))
        while not two.active:
            assert not (one.active and two.active)
            await asyncio.sleep(0.01)
        assert not one.active
        assert clock.monotonic() - cut_s < LEASE_S + 2.0
        with pytest.raises(KafkaError) as told:
            await waiting
        assert told.value.code == ErrorCode.NOT_CONTROLLER
        await write(two, 9)
        group.stores[1].cut = False
        await asyncio.sleep(LEASE_S)
        assert one.phase is TermPhase.UNLOADED
        await two.stop()
        await until(lambda: one.active)
        assert written(one) == "9"
        assert list(one.image.records())[1:2] != list(two.image.records())[1:2]
        await one.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)


def test_a_controller_that_slept_through_its_lease_is_not_active_when_it_wakes() -> None:
    """After SIGSTOP, the controller's timers have not run yet when the first request arrives."""

    async def main() -> None:
        one, two = await started(group, 1, 2)
        await two.stop()
        clock.advance(LEASE_S)
        assert one.phase is TermPhase.ACTIVE
        assert not one.active
        assert await refusal(one) == ErrorCode.NOT_CONTROLLER
        await until(lambda: one.active)
        assert one.image.cluster.controller_epoch == 2
        await one.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)


def test_an_answer_that_is_lost_is_no_lost_write() -> None:
    def lose_the_first(operation: str, name: str) -> Fault:
        if operation == "create" and name not in seen:
            seen.add(name)
            return Fault(answer_lost=True)
        return NO_FAULT

    async def main() -> None:
        (one,) = await started(group, 1)
        group.stores[1].faults = lose_the_first
        for number in range(5):
            await write(one, number)
        assert len(seen) == 5
        assert one.image.cluster.controller_epoch == 1
        before = list(one.image.records())
        two = group.standby(2)
        await two.start()
        await one.stop()
        await until(lambda: two.active)
        assert [r for r in two.image.records() if r not in before] == list(two.image.records())[1:2]
        await two.stop()

    seen: set[str] = set()
    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)


def test_snapshots_bound_what_the_store_holds_and_what_a_takeover_reads() -> None:
    async def main() -> None:
        (one,) = await started(group, 1)
        for number in range(1_000):
            await write(one, number)
        await until(lambda: one.history.snapshot is not None and one.history.snapshot.end_offset > 1_000)
        assert len(group.shared.objects) < 220
        two = group.standby(2)
        await two.start()
        await one.stop()
        await until(lambda: two.active)
        assert written(two) == "999"
        assert two.history.snapshot == one.history.snapshot
        await two.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)


def test_a_journal_with_a_hole_ends_the_process_with_a_sentence() -> None:
    async def main() -> None:
        (one,) = await started(group, 1)
        for number in range(3):
            await write(one, number)
        await one.stop()
        group.shared.delete(f"metadata-batch-{3:020d}")
        two = group.standby(2)
        await two.start()
        with pytest.raises(ReplayError, match="no object for offset 3"):
            await two.failed
        await two.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)


class Chaos:
    """Three controllers with lost requests, lost answers, slow ones and cuts; writers at each, and the answers."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.group = Standbys(self.clock, snapshot_every=10)
        self.controllers: list[ControllerService] = []
        self.faulty = True
        self.answered: list[int] = []
        self._numbers = iter(range(100_000))

    def fault(self, _operation: str, _name: str) -> Fault:
        if not self.faulty:
            return NO_FAULT
        delay_s = self.rng.choice((0.0, 0.0, 0.0, 0.0, 0.01, 0.01, 0.1, 0.6))
        return Fault(delay_s, self.rng.random() < 0.03, delay_s, self.rng.random() < 0.03)

    async def write(self, controller: ControllerService) -> None:
        while self.faulty:
            number = next(self._numbers)
            record = ConfigRecord(4, "", f"n.{number}", str(number))
            try:
                await controller.submit(partial(_decided, record))
            except KafkaError:
                await asyncio.sleep(0.1)
            else:
                self.answered.append(number)
            await asyncio.sleep(self.rng.random() / 10)

    async def watch(self) -> None:
        while True:
            assert sum(each.active for each in self.controllers) <= 1
            await asyncio.sleep(0.005)

    async def run(self) -> ControllerService:
        """Run, heal all faults, and return the active controller."""
        for node_id in (1, 2, 3):
            self.controllers.append(self.group.standby(node_id))
            self.group.stores[node_id].faults = self.fault
            await self.controllers[-1].start()
        watching = asyncio.ensure_future(self.watch())
        writers = [asyncio.ensure_future(self.write(each)) for each in self.controllers]
        for _ in range(15):
            await asyncio.sleep(self.rng.uniform(0.5, 6.0))
            cut = self.rng.choice((0, 1, 2, 3))
            for node_id, store in self.group.stores.items():
                store.cut = node_id == cut
        self.faulty = False
        for store in self.group.stores.values():
            store.cut = False
        await asyncio.gather(*writers)
        await asyncio.sleep(LEASE_S)
        await until(lambda: any(each.active for each in self.controllers))
        assert not watching.done()
        watching.cancel()
        return next(each for each in self.controllers if each.active)


def _decided(record: ConfigRecord, _image: MetadataImage) -> tuple[list[MetadataRecord], None]:
    return [record], None


@pytest.mark.parametrize("seed", range(40))
def test_under_faults_one_writes_at_a_time_and_nothing_that_was_answered_is_lost(seed: int) -> None:
    async def main() -> None:
        active = await chaos.run()
        known = {int(value) for key, value in active.image.configs.of_broker(None).items() if key.startswith("n.")}
        assert len(chaos.answered) > 5
        assert set(chaos.answered) <= known
        assert any(name.startswith("delete metadata-batch") for name in chaos.group.shared.log)
        for each in chaos.controllers:
            assert not each.failed.done()
            await each.stop()

    chaos = Chaos(seed)
    run(main(), chaos.clock)


def test_a_controller_without_its_store_is_not_ready_until_the_store_is_back(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        one, two = await started(group, 1, 2)
        assert (one.why_not_ready(), two.why_not_ready()) == (None, None)
        for store in group.stores.values():
            store.cut = True
        await asyncio.sleep(LEASE_S * 3)
        for each in (one, two):
            reason = each.why_not_ready()
            assert reason is not None
            assert "cannot be read or written" in reason
        await asyncio.sleep(LEASE_S * 30)
        for store in group.stores.values():
            store.cut = False
        await until(lambda: one.active or two.active)
        assert (one.why_not_ready(), two.why_not_ready()) == (None, None)
        await one.stop()
        await two.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) < 60


def test_a_controller_without_access_to_the_journal_is_not_ready() -> None:
    async def main() -> None:
        one = group.standby(1)

        def refused(operation: str, name: str) -> Fault:
            return NO_FAULT if operation in ("lease", "put_lease") else Fault(lost=True)

        group.stores[1].faults = refused
        await one.start()
        await until(lambda: one.why_not_ready() is not None)
        assert "the journal's store does not answer" in (one.why_not_ready() or "")
        group.stores[1].faults = lambda operation, name: NO_FAULT
        await until(lambda: one.active)
        assert one.why_not_ready() is None
        await one.stop()

    clock = ManualClock()
    group = Standbys(clock)
    run(main(), clock)
