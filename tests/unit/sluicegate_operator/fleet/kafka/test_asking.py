"""Questions to several brokers: the answer of each, whatever the others do."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from kio.schema.describe_cluster.v0.response import DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError, Unreachable
from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from tests.support.fakes.scripted_peer import NO_THROTTLE, ScriptedPeer

pytestmark = pytest.mark.virtual_time

DESCRIBE_CLUSTER = 60


def answering(cluster_id: str, code: ErrorCode = ErrorCode.none) -> ScriptedPeer:
    peer = ScriptedPeer()
    peer.answer(
        DescribeClusterResponse(
            throttle_time=NO_THROTTLE, error_code=code, cluster_id=cluster_id, controller_id=BrokerId(1), brokers=()
        )
    )
    return peer


def silent() -> ScriptedPeer:
    return ScriptedPeer()


def down() -> ScriptedPeer:
    return ScriptedPeer(refuse=True)


def pool_of(*peers: ScriptedPeer) -> BrokerPool:
    """Brokers 0, 1, ... on the hosts b0, b1, ..."""
    by_host = {f"b{number}": peer for number, peer in enumerate(peers)}

    async def connect(address: tuple[str, int], factory: Callable[[], asyncio.Protocol]) -> object:
        return await by_host[address[0]].connect(address, factory)

    admin = AdminClient([("b0", 9092)], connect=connect)
    brokers = tuple(BrokerAddress(number, host, 9092) for number, host in enumerate(by_host))
    return BrokerPool(admin, brokers, ask_timeout_s=0.05)


async def cluster_id(_: BrokerAddress, handle: BrokerHandle) -> str:
    return (await handle.describe_cluster()).cluster_id


async def test_a_poll_of_all_brokers_returns_each_answer_or_its_error() -> None:
    pool = pool_of(answering("a"), down(), silent(), answering("d"))
    async with pool.admin:
        answers = await pool.ask_each(cluster_id)
    assert answers == {
        0: "a",
        1: Unreachable(1, "broker b1:9092: cannot connect: Connection refused"),
        2: Unreachable(2, "no answer within 0.05 s"),
        3: "d",
    }


async def test_answers_do_not_wait_long_for_a_broker_that_is_silent() -> None:
    patient = replace(pool_of(answering("a"), silent(), answering("c")), ask_timeout_s=60)
    async with patient.admin, asyncio.timeout(10):
        answers = await patient.ask_each(cluster_id)
    assert answers == {0: "a", 1: Unreachable(1, "no answer within 0.3 s after another broker's"), 2: "c"}


async def test_brokers_that_did_not_answer_are_asked_last_with_a_short_timeout() -> None:
    pool = replace(pool_of(silent(), answering("b")), ask_timeout_s=60)
    doubting = pool.doubting({0: Unreachable(0, "frozen"), 1: "b"})
    async with pool.admin, asyncio.timeout(10):
        assert await doubting.ask_any(cluster_id) == "b"
        assert await doubting.ask(doubting.brokers[0], cluster_id) == Unreachable(0, "no answer within 0.25 s")


async def test_a_refusal_of_a_read_is_the_reason_too() -> None:
    pool = pool_of(answering("", ErrorCode.cluster_authorization_failed))
    async with pool.admin:
        (answer,) = (await pool.ask_each(cluster_id)).values()
    assert answer == Unreachable(0, "describing the cluster: CLUSTER_AUTHORIZATION_FAILED")


async def test_only_the_named_brokers_are_asked() -> None:
    pool = pool_of(answering("a"), answering("b"))
    async with pool.admin:
        assert await pool.ask_each(cluster_id, pool.brokers[1:]) == {1: "b"}


async def test_any_broker_that_is_there_may_answer() -> None:
    pool = pool_of(down(), silent(), answering("c"))
    async with pool.admin:
        assert await pool.ask_any(cluster_id) == "c"


async def test_a_refusal_is_an_answer_and_no_other_broker_is_asked() -> None:
    second = answering("b")
    pool = pool_of(answering("", ErrorCode.cluster_authorization_failed), second)
    async with pool.admin:
        with pytest.raises(KafkaApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await pool.ask_any(cluster_id)
    assert second.attempts == 0


async def test_the_error_has_the_reason_of_each_unreachable_broker() -> None:
    pool = pool_of(down(), silent())
    async with pool.admin:
        with pytest.raises(NoBrokerError, match=r"b0:9092: cannot connect.*; broker 1: no answer within 0\.05 s"):
            await pool.ask_any(cluster_id)


async def test_a_cluster_without_brokers_cannot_be_asked() -> None:
    pool = BrokerPool(AdminClient([("b0", 9092)]), ())
    with pytest.raises(NoBrokerError, match="the cluster has no brokers"):
        await pool.ask_any(cluster_id)


async def test_a_broker_that_is_not_up_is_not_waited_for_as_long() -> None:
    pool = pool_of(answering("a"), silent())
    patient = replace(pool, brokers=(pool.brokers[0], replace(pool.brokers[1], up=False)), ask_timeout_s=60)
    async with pool.admin, asyncio.timeout(10):
        answers = await patient.ask_each(cluster_id)
    assert answers == {0: "a", 1: Unreachable(1, "no answer within 0.25 s")}


async def test_a_broker_that_is_up_is_asked_before_one_that_is_not() -> None:
    pool = pool_of(silent(), answering("b"))
    async with pool.admin, asyncio.timeout(10):
        asked = replace(pool, brokers=(replace(pool.brokers[0], up=False), pool.brokers[1]), ask_timeout_s=60)
        assert await asked.ask_any(cluster_id) == "b"


async def test_nothing_is_asked_of_a_broker_that_is_barred() -> None:
    stranger, own = answering("another"), answering("c")
    pool = pool_of(stranger, own)
    pool = replace(pool, brokers=(replace(pool.brokers[0], barred="another answers there"), pool.brokers[1]))
    async with pool.admin:
        answers = await pool.ask_each(cluster_id)
        assert await pool.ask_any(cluster_id) == "c"
        with pytest.raises(NoBrokerError, match="another answers there"):
            await pool.only(0).ask_any(cluster_id)
    assert answers == {0: Unreachable(0, "another answers there"), 1: "c"}
    assert stranger.attempts == 0
