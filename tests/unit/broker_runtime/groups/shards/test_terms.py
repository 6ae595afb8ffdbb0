"""Groups and their pending requests while their broker wins, loses and loads partitions."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker_runtime.coordination.runtime import TermPhase
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import GroupType
from broker_runtime.groups.records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import Census
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.node.metrics import group_tally_families
from tests.support.groups.coordinating_broker import ME, CoordinatingBroker

GROUP = "billing"
Decided = tuple[Sequence[GroupRecord], Any]


def committing(offset: int, partition: int = 0, group: str = GROUP) -> Any:
    def decide(state: GroupsState, environment: GroupEnvironment) -> Decided:
        value = OffsetCommitValue(offset, -1, "", environment.now_ms())
        return [GroupRecord(OffsetCommitKey(group, "orders", partition), value)], offset

    return decide


def look(state: GroupsState, environment: GroupEnvironment) -> Decided:
    return (), {at: value.offset for at, value in state.offsets.of(GROUP).items()}


async def iterations() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def followed(node: CoordinatingBroker, *waiting: asyncio.Future[Any]) -> None:
    """Let the follower fetch until all of these are answered."""
    while not all(each.done() for each in waiting):
        await asyncio.sleep(0)
        node.follow()
    await asyncio.gather(*waiting)


async def code_of(node: CoordinatingBroker, decide: Any = look) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await node.groups.submit(GROUP, decide)
    return refused.value.code


def index_of(node: CoordinatingBroker) -> int:
    term = node.groups.term_of(GROUP)
    return next(index for index, each in node.groups.terms.items() if each is term)


async def test_offsets_committed_in_one_epoch_exist_in_the_next() -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        assert await node.groups.submit(GROUP, committing(5)) == 5
        before = node.groups.term_of(GROUP)
        await node.lead()
        assert node.groups.term_of(GROUP) is not before
        assert await node.groups.submit(GROUP, look) == {("orders", 0): 5}


async def test_a_broker_that_leads_no_partition_coordinates_nothing_and_keeps_nothing() -> None:
    async with CoordinatingBroker() as node:
        assert await code_of(node) == ErrorCode.NOT_COORDINATOR, "there is no such topic yet"
        await node.lead()
        await node.groups.submit(GROUP, committing(5))
        node.lose()
        assert node.groups.terms == {}
        assert await code_of(node) == ErrorCode.NOT_COORDINATOR


async def test_a_group_that_is_being_loaded_is_asked_for_again() -> None:
    """Answers omit records that an earlier leader may not have acknowledged, until they are certain to stay."""
    async with CoordinatingBroker(partitions=1, replicas=(1, 2)) as node:
        await node.loading()
        await iterations()
        assert await code_of(node) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.follow()
        await node.loaded()
        assert await node.groups.submit(GROUP, look) == {}


async def test_a_group_is_loading_from_when_the_metadata_name_this_broker() -> None:
    """FindCoordinator names the broker from then on.

    librdkafka repeats OffsetFetch only while the group is loading.
    """
    async with CoordinatingBroker(partitions=1) as node:
        node.make_offsets_topic()
        assert node.groups.terms == {}
        assert await code_of(node) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.lose()
        assert await code_of(node) == ErrorCode.NOT_COORDINATOR
        node.elect(ME)
        assert await code_of(node) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await node.loaded()
        assert await node.groups.submit(GROUP, look) == {}


async def test_a_group_whose_replica_cannot_be_opened_is_not_loading() -> None:
    """Otherwise members would never notice: a heartbeat to a coordinator that is loading succeeds."""
    async with CoordinatingBroker(partitions=1) as node:
        node.make_offsets_topic()
        node.replicas.offline[GROUPS_TOPIC, 0] = "its log is damaged"
        assert await code_of(node) == ErrorCode.NOT_COORDINATOR
        assert node.groups.hosted.awaited() == []


async def test_a_broker_that_stops_coordinates_nothing_though_the_metadata_still_name_it() -> None:
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        await node.replicas.stop()
        assert await code_of(node) == ErrorCode.NOT_COORDINATOR


async def test_pending_requests_fail_when_the_epoch_ends() -> None:
    def joined(state: GroupsState, environment: GroupEnvironment) -> tuple[Sequence[GroupRecord], DeferredAnswer[str]]:
        return (), DeferredAnswer()

    async with CoordinatingBroker() as node:
        await node.lead()
        waiting = asyncio.ensure_future(node.groups.submit_later(GROUP, joined))
        await iterations()
        assert not waiting.done()
        node.lose()
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code == ErrorCode.NOT_COORDINATOR


async def test_an_answer_is_sent_when_its_records_are_durable() -> None:
    held: list[DeferredAnswer[str]] = []

    def joined(state: GroupsState, environment: GroupEnvironment) -> tuple[Sequence[GroupRecord], DeferredAnswer[str]]:
        held.append(DeferredAnswer())
        return (), held[-1]

    def complete(state: GroupsState, environment: GroupEnvironment) -> Decided:
        environment.outbox.send(held[0], "assigned")
        environment.outbox.send(held[1], KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "again"))
        decided: Decided = committing(7)(state, environment)
        return decided

    async with CoordinatingBroker(replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        one, two = (asyncio.ensure_future(node.groups.submit_later(GROUP, joined)) for _ in range(2))
        await iterations()
        done = asyncio.ensure_future(node.groups.submit(GROUP, complete))
        await iterations()
        assert (one.done(), done.done()) == (False, False), "the other replica has not got it yet"
        node.follow(index_of(node))
        assert await one == "assigned"
        assert await done == 7
        with pytest.raises(KafkaError, match="REBALANCE_IN_PROGRESS"):
            await two


async def test_an_answer_that_is_there_at_once_leaves_with_its_decision() -> None:
    def known(state: GroupsState, environment: GroupEnvironment) -> tuple[Sequence[GroupRecord], DeferredAnswer[str]]:
        return (), DeferredAnswer.of("at once")

    async with CoordinatingBroker() as node:
        await node.lead()
        assert await node.groups.submit_later(GROUP, known) == "at once"


async def test_a_client_that_goes_away_leaves_an_abandoned_answer_and_nothing_else() -> None:
    held: list[DeferredAnswer[str]] = []

    def joined(state: GroupsState, environment: GroupEnvironment) -> tuple[Sequence[GroupRecord], DeferredAnswer[str]]:
        held.append(DeferredAnswer())
        return (), held[-1]

    async with CoordinatingBroker() as node:
        await node.lead()
        waiting = asyncio.ensure_future(node.groups.submit_later(GROUP, joined))
        await iterations()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert held[0].abandoned
        assert not node.groups.term_of(GROUP)._unanswered
        held[0].give("too late")


async def test_too_few_replicas_in_sync_are_a_coordinator_that_is_not_available() -> None:
    async with CoordinatingBroker(replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        leader = node.leader(index_of(node))
        leader.log.config = type(leader.log.config)(min_insync_replicas=2)
        leader.isr = (1,)
        assert await code_of(node, committing(5)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await node.groups.submit(GROUP, look) == {}


async def test_replicas_that_take_too_long_are_a_coordinator_that_is_not_available() -> None:
    async with CoordinatingBroker({"offsets.commit.timeout.ms": "1"}, replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        assert await code_of(node, committing(5)) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_request_that_timed_out_in_the_queue_is_dropped_but_one_of_a_closed_client_runs() -> None:
    async with CoordinatingBroker({"offsets.commit.timeout.ms": "1"}, partitions=1, replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        assert await code_of(node, committing(5)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        leaving = asyncio.create_task(node.groups.submit(GROUP, committing(7, partition=7)))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await code_of(node, committing(6)) == ErrorCode.COORDINATOR_NOT_AVAILABLE, (
            "it waits no longer than the log"
        )
        state = node.groups.term_of(GROUP).state
        node.follow()
        await iterations()
        assert [value.offset for value in state.offsets.of(GROUP).values()] == [5, 7]


async def test_thousands_of_requests_that_wait_for_each_other_do_not_time_out() -> None:
    async with CoordinatingBroker({"offsets.commit.timeout.ms": "20"}, partitions=1, replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        term = node.groups.term_of(GROUP)
        first = asyncio.create_task(node.groups.submit(GROUP, committing(5)))
        await iterations()
        waiting = asyncio.create_task(node.groups.submit(GROUP, committing(6)))
        with pytest.raises(KafkaError):
            await first
        assert not waiting.done()
        await followed(node, waiting)
        assert term.state.offsets.of(GROUP)["orders", 0].offset == 6


async def test_the_queue_has_an_end() -> None:
    async with CoordinatingBroker({"sluicegate.group.coordinator.queue.max": "3"}) as node:
        await node.lead()
        told = await asyncio.gather(
            *(node.groups.submit(GROUP, committing(n)) for n in range(5)), return_exceptions=True
        )
        codes = [each.code if isinstance(each, KafkaError) else each for each in told]
        assert codes == [0, 1, 2, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2]


async def test_a_partition_that_holds_what_cannot_be_is_named_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with CoordinatingBroker() as node:
        await node.lead()
        node.append(b"\x00\x01\x00", b"x")
        node.elect(1)
        await iterations()
        assert "__consumer_offsets-0" in node.groups.problems[0]
        assert "is restarted" in caplog.text
        assert node.groups.terms[0].phase.value == "unloaded"
        assert node.groups.terms[1].phase.value == "active", "others are served"


async def test_unused_offsets_are_deleted_by_a_timer_and_with_their_topic() -> None:
    interval = {"offsets.retention.check.interval.ms": "1", "offsets.retention.minutes": "1"}
    async with CoordinatingBroker(interval) as node:
        await node.lead()
        await node.groups.submit(GROUP, committing(5))
        node.clock.advance(120)
        for _ in range(1000):
            if GROUP not in node.groups.term_of(GROUP).state.groups:
                break
            await asyncio.sleep(0.001)
        assert await node.groups.submit(GROUP, look) == {}
        await node.groups.submit(GROUP, committing(6))
        node.groups.topics_changed({"orders"}, {"orders": node.orders})
        await iterations()
        assert await node.groups.submit(GROUP, look) == {}


async def test_work_aside_comes_back_as_a_decision_and_not_after_the_epoch() -> None:
    came: list[object] = []

    def start(work: Any) -> Any:
        def then(result: object) -> Any:
            def decide(state: GroupsState) -> Decided:
                came.append(result)
                return (), None

            return decide

        def decide(state: GroupsState, environment: GroupEnvironment) -> Decided:
            environment.offload(work, then)
            return (), None

        return decide

    async with CoordinatingBroker() as node:
        await node.lead()
        await node.groups.submit(GROUP, start(lambda: 42))
        await node.groups.submit(GROUP, start(lambda: [][0]))
        for _ in range(1000):
            if len(came) == 2:
                break
            await asyncio.sleep(0.001)
        assert came[0] == 42
        assert isinstance(came[1], IndexError)
        await node.groups.submit(GROUP, start(lambda: 43))
        node.lose()
        await asyncio.sleep(0.01)
        assert len(came) == 2


async def test_decisions_and_groups_by_state_are_counted() -> None:
    interval = {"offsets.retention.check.interval.ms": "1", "offsets.retention.minutes": "1"}
    async with CoordinatingBroker(interval) as node:
        await node.lead()
        await node.groups.submit(GROUP, committing(5))
        await node.groups.submit(GROUP, committing(6, partition=1))
        census = Census(node.groups.states)
        await census.count()
        assert census.groups == {(GroupType.CLASSIC, "Empty"): 1}
        node.groups.topics_changed((), {"orders": node.orders})
        await iterations()
        tally = node.groups.tally
        assert (tally.offset_commits, tally.offset_deletions, tally.offset_expirations) == (2, 2, 0)
        await node.groups.submit(GROUP, committing(7))
        node.clock.advance(120)
        for _ in range(1000):
            if tally.offset_expirations:
                break
            await asyncio.sleep(0.001)
        assert (tally.offset_commits, tally.offset_deletions, tally.offset_expirations) == (3, 2, 1)
        assert (tally.loads, tally.failures) == (2, 0)
        names = [family.name for family in group_tally_families(tally, census.groups)]
        assert len(names) == len(set(names)) == 11


async def test_a_large_partition_is_loaded_while_others_have_their_iterations() -> None:
    def many(state: GroupsState, environment: GroupEnvironment) -> Decided:
        value = OffsetCommitValue(5, -1, "", 0)
        return [GroupRecord(OffsetCommitKey(f"g{n // 100}", "orders", n % 100), value) for n in range(5_000)], None

    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        await node.groups.submit(GROUP, many)
        node.elect(1)
        rounds = 0
        await asyncio.sleep(0)
        while node.groups.terms[0].phase is TermPhase.LOADING:
            rounds += 1
            await asyncio.sleep(0)
        assert rounds >= 5_000 / 128
        assert node.groups.terms[0].state.offsets.count == 5_000


async def test_offloaded_work_whose_records_the_log_refuses_is_retried_and_blocks_no_other() -> None:
    came: list[int] = []

    def start(number: int) -> Any:
        def decide(state: GroupsState, environment: GroupEnvironment) -> Decided:
            def adopt(state: GroupsState) -> Decided:
                came.append(number)
                decided: Decided = committing(number, partition=number)(state, environment)
                return decided[0], None

            environment.offload(lambda: number, lambda _: adopt)
            return (), None

        return decide

    async with CoordinatingBroker(partitions=1, replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        leader = node.leader()
        leader.log.config = type(leader.log.config)(min_insync_replicas=2)
        leader.isr = (1,)
        for number in (1, 2):
            await node.groups.submit(GROUP, start(number))
            for _ in range(1000):
                if number in came:
                    break
                await asyncio.sleep(0.001)
            await iterations()
        assert came == [1, 2]
        leader.isr = (1, 2)
        for _ in range(3000):
            node.follow()
            if len(node.groups.terms[0].state.offsets.of(GROUP)) == 2:
                break
            await asyncio.sleep(0.001)
        assert sorted(node.groups.terms[0].state.offsets.of(GROUP)) == [("orders", 1), ("orders", 2)]


async def test_offsets_of_a_topic_that_is_gone_go_though_the_log_refuses_that_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that is created under the name later would otherwise be read from there."""
    monkeypatch.setattr("broker_runtime.coordination.runtime._TIMER_RETRY_S", 0.001)
    async with CoordinatingBroker(partitions=1, replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        leader = node.leader()
        waiting = [asyncio.ensure_future(node.groups.submit(GROUP, committing(5, partition))) for partition in range(3)]
        await followed(node, *waiting)
        leader.log.config = type(leader.log.config)(min_insync_replicas=2)
        leader.isr = (1,)
        node.groups.topics_changed({"orders"}, {"orders": node.orders})
        await iterations()
        offsets = node.groups.terms[0].state.offsets
        assert len(offsets.of(GROUP)) == 3
        leader.isr = (1, 2)
        for _ in range(3000):
            node.follow()
            if not offsets.of(GROUP):
                break
            await asyncio.sleep(0.001)
        assert offsets.of(GROUP) == {}


async def test_a_record_that_has_no_room_leaves_nothing_of_its_decision_in_the_log() -> None:
    """A large group would become one of the classic protocol, whose members are one record."""
    async with CoordinatingBroker(partitions=1) as node:
        await node.lead()
        limit = node.leader().log.config.max_message_bytes
        end = node.leader().log.log_end_offset

        def writing(size: int) -> Any:
            def decide(state: GroupsState, environment: GroupEnvironment) -> Decided:
                value = ConsumerGroupRegularExpressionValue(("t" * 30_000,) * (size // 30_000), 0, 0)
                large = GroupRecord(ConsumerGroupRegularExpressionKey(GROUP, ".*"), value)
                return [*committing(5)(state, environment)[0], large], None

            return decide

        assert await code_of(node, writing(limit + 30_000)) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (node.leader().log.log_end_offset, node.groups.terms[0].state.offsets.count) == (end, 0)
        await node.groups.submit(GROUP, writing(limit - 30_000))
        assert node.leader().log.log_end_offset == end + 2


async def test_offsets_count_as_expired_when_the_log_has_taken_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_runtime.coordination.runtime._TIMER_RETRY_S", 0.001)
    settings = {"offsets.retention.check.interval.ms": "1", "offsets.retention.minutes": "1"}
    async with CoordinatingBroker(settings, partitions=1, replicas=(1, 2)) as node:
        node.elect(1)
        await node.loaded()
        leader, tally = node.leader(), node.groups.tally
        waiting = asyncio.ensure_future(node.groups.submit(GROUP, committing(5)))
        await followed(node, waiting)
        leader.log.config = type(leader.log.config)(min_insync_replicas=2)
        leader.isr = (1,)
        node.clock.advance(120)
        await asyncio.sleep(0.05)
        assert (tally.offset_expirations, tally.offset_deletions) == (0, 0)
        leader.isr = (1, 2)
        for _ in range(3000):
            node.follow()
            if not node.groups.terms[0].state.offsets.of(GROUP):
                break
            await asyncio.sleep(0.001)
        assert (tally.offset_expirations, tally.offset_deletions) == (1, 0)
