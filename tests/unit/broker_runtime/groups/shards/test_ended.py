"""Timers belong to members and groups that the log has taken, and end with them, for each kind of group."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.leaving import leave
from broker_runtime.groups.classic.requests import JoinAnswer, LeaveRequest, LeavingMember
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.consumer.heartbeat import heartbeat
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.offsets.delete import delete_group
from broker_runtime.groups.push.answers import connection_ended
from broker_runtime.groups.push.registering import register
from broker_runtime.groups.push.registration import ConsumerRegistration
from broker_runtime.groups.records import ClassicProtocol
from tests.support.groups.classic_coordinator import join_request, told
from tests.support.groups.coordinating_broker import CoordinatingBroker

GROUP = "readers"
LONGEST_MS = 2**31 - 1
SUBSCRIPTION = struct.pack(">hih6sii", 1, 1, 6, b"orders", -1, 0)
RANGE = (ClassicProtocol("range", SUBSCRIPTION),)


class Scene:
    """A coordinator, whose log may refuse everything, and the requests of clients to it."""

    def __init__(self, node: CoordinatingBroker) -> None:
        self.node = node

    @property
    def timers(self) -> set[Any]:
        """Keys of the timers of members and groups."""
        kept = self.node.groups.term_of(GROUP).shard.environment.timers
        keys = kept._timers._timers  # Nothing else distinguishes the timers.
        return {key for key in keys if isinstance(key, tuple) and key[0] == GROUP}

    @property
    def group(self) -> ConsumerGroup:
        group = self.node.groups.term_of(GROUP).state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    async def decide(self, decide: Any) -> Any:
        waiting = asyncio.ensure_future(self.node.groups.submit(GROUP, decide))
        while not waiting.done():
            await asyncio.sleep(0)
            self.node.follow()
        return await waiting

    async def beat(self, member_id: str, epoch: int = 0, **more: Any) -> Any:
        join: dict[str, Any] = {"rebalance_timeout_ms": LONGEST_MS, "subscribed_topic_names": ("orders",), "owned": {}}
        request = ConsumerHeartbeatRequest(GROUP, member_id, epoch, **((join if epoch == 0 else {}) | more))
        return await self.decide(lambda state, environment: heartbeat(state, environment, request))

    async def join(self, member_id: str = "", **more: Any) -> JoinAnswer:
        """Join by the classic protocol. The answer is immediate."""
        return told(await self.ask_to_join(member_id, **more))

    async def ask_to_join(self, member_id: str = "", **more: Any) -> DeferredAnswer[JoinAnswer]:
        fields = {"group_id": GROUP, "protocols": RANGE, "rebalance_timeout_ms": LONGEST_MS, **more}
        request = join_request(member_id, **fields)
        later: DeferredAnswer[JoinAnswer] = await self.decide(
            lambda state, environment: join(state, environment, request, CLASSIC_MEMBERS)
        )
        return later

    async def leave(self, member_id: str) -> None:
        request = LeaveRequest(GROUP, (LeavingMember(member_id, None),))
        await self.decide(lambda state, environment: leave(state, environment, request, CLASSIC_MEMBERS))

    async def register(self, consumer_id: str, connection: int) -> None:
        asked = ConsumerRegistration(GROUP, consumer_id, '{"orders": 1}', True, "smallest", 30_000, "/127.0.0.1")
        await self.decide(lambda state, environment: register(state, environment, asked, connection))


@asynccontextmanager
async def a_scene() -> AsyncIterator[Scene]:
    settings = {"group.consumer.assignment.interval.ms": "0"}
    async with CoordinatingBroker(settings, partitions=1, replicas=(1, 2)) as node:
        await node.lead()
        leader = node.leader()
        leader.log.config = type(leader.log.config)(min_insync_replicas=2)
        yield Scene(node)


@asynccontextmanager
async def refusing(scene: Scene) -> AsyncIterator[None]:
    scene.node.leader().isr = (1,)
    with pytest.raises(KafkaError) as caught:
        yield
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    scene.node.leader().isr = (1, 2)


async def test_a_member_whose_join_the_log_refuses_has_no_timer() -> None:
    async with a_scene() as scene:
        for number in range(3):
            async with refusing(scene):
                await scene.beat(f"member-{number}")
        assert scene.timers == set()
        await scene.beat("member-0")
        before = scene.timers
        async with refusing(scene):
            await scene.beat("member-1")
        assert scene.timers == before == {(GROUP, "session", "member-0")}


async def test_a_classic_member_whose_join_to_a_group_of_the_new_protocol_is_refused_has_no_timer() -> None:
    async with a_scene() as scene:
        await scene.beat("new")
        before = scene.timers
        for number in range(3):
            async with refusing(scene):
                await scene.join(f"old-{number}")
        assert scene.timers == before


async def test_a_text_that_has_no_room_in_a_record_is_refused_and_leaves_no_timer() -> None:
    async with a_scene() as scene:
        for member_id, more in (
            ("x" * 40_000, {}),
            ("\N{SNOWMAN}" * 20_000, {}),
            ("m", {"subscribed_topic_names": ("t" * 40_000,)}),
            ("m", {"instance_id": "x" * 40_000}),
        ):
            with pytest.raises(KafkaError) as caught:
                await scene.beat(member_id, **more)
            assert caught.value.code == ErrorCode.INVALID_REQUEST
        assert scene.timers == set()


async def test_a_consumer_whose_registration_the_log_refuses_has_no_timer() -> None:
    async with a_scene() as scene:
        async with refusing(scene):
            await scene.register("consumer-1", 1)
        assert scene.timers == set()


async def test_a_member_keeps_its_session_if_the_log_refuses_its_heartbeat() -> None:
    async with a_scene() as scene:
        answer = await scene.beat("member")
        kept = scene.node.groups.term_of(GROUP).shard.environment.timers
        due = kept._timers._timers  # A heartbeat changes nothing else that can be read.
        before = due[GROUP, "session", "member"]
        async with refusing(scene):
            await scene.beat("member", answer.member_epoch, subscribed_topic_names=("orders", "more"))
        assert due[GROUP, "session", "member"] > before


async def test_no_timer_is_left_of_a_member_that_has_left() -> None:
    async with a_scene() as scene:
        for number in range(3):
            await scene.beat(f"member-{number}")
        for number in range(3):
            await scene.beat(f"member-{number}", -1)
        assert {key for key in scene.timers if key[1] != "assignment"} == set()


async def test_no_timer_is_left_of_a_member_that_was_to_give_up_partitions() -> None:
    async with a_scene() as scene:
        first = await scene.beat("first")
        await scene.beat("second")
        owned = scene.group.members["first"].current.assigned_partitions
        await scene.beat("first", first.member_epoch, owned=owned)
        assert (GROUP, "rebalance", "first") in scene.timers
        async with refusing(scene):
            await scene.beat("first", -1)
        assert (GROUP, "rebalance", "first") in scene.timers
        await scene.beat("first", -1)
        assert {key for key in scene.timers if "first" in key} == set()


async def test_no_timer_is_left_of_classic_members_that_join_and_leave_a_group_of_the_new_protocol() -> None:
    async with a_scene() as scene:
        await scene.beat("new")
        before = scene.timers
        for number in range(3):
            assert (await scene.join(f"old-{number}")).error is ErrorCode.NONE
            assert (GROUP, "sync", f"old-{number}") in scene.timers
            await scene.leave(f"old-{number}")
        assert scene.timers == before


async def test_no_timer_is_left_of_the_former_instance_of_a_static_member() -> None:
    async with a_scene() as scene:
        await scene.beat("first", instance_id="one")
        await scene.beat("first", -2, instance_id="one")
        await scene.beat("second", instance_id="one")
        assert scene.timers == {(GROUP, "session", "second")}


async def test_a_static_member_that_comes_back_with_its_id_has_a_session() -> None:
    async with a_scene() as scene:
        await scene.beat("first", instance_id="one")
        await scene.beat("first", -2, instance_id="one")
        await scene.beat("first", instance_id="one")
        assert scene.timers == {(GROUP, "session", "first")}


async def test_a_member_that_changes_to_the_new_protocol_is_not_awaited_by_the_old_one() -> None:
    async with a_scene() as scene:
        await scene.beat("new")
        await scene.join("old")
        await scene.beat("old")
        assert scene.timers == {(GROUP, "session", "new"), (GROUP, "session", "old")}


async def test_no_timer_is_left_of_a_group_that_is_deleted_while_an_id_was_given() -> None:
    async with a_scene() as scene:
        given = await scene.join()
        assert given.error is ErrorCode.MEMBER_ID_REQUIRED
        assert scene.timers == {(GROUP, "pending", given.member_id)}
        await scene.decide(lambda state, _: delete_group(state, GROUP))
        assert scene.timers == set()


async def test_a_classic_group_that_rebalances_leaves_no_timer_when_it_takes_the_new_protocol() -> None:
    async with a_scene() as scene:
        await scene.ask_to_join(group_instance_id="static")
        assert (GROUP, "join") in scene.timers
        await scene.beat("new")
        for _ in range(100):
            await scene.decide(lambda state, _: ((), None))
        assert len(scene.group.members) == 2
        assert {key[1] for key in scene.timers if len(key) == 2} <= {"assignment"}
        assert len([key for key in scene.timers if key[1] == "session"]) == 2


async def test_no_timer_is_left_of_consumers_of_a_push_group_that_have_gone() -> None:
    async with a_scene() as scene:
        for number in range(3):
            await scene.register(f"consumer-{number}", number)
        assert (GROUP, "ping", "consumer-0") in scene.timers
        for number in range(3):
            ended = partial(connection_ended, group_id=GROUP, consumer_id=f"consumer-{number}", connection=number)
            await scene.decide(ended)
        assert {key for key in scene.timers if len(key) == 3} == set()
