"""The answers of Kafka's admin protocol for the console: errors, brokers that leave, late answers, and lags."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from sluicegate_operator.cli.top.model.lines import GroupLine
from sluicegate_operator.cli.top.model.look import Look
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.sources import kafka_answers, kafka_groups
from sluicegate_operator.cli.top.sources.kafka_answers import KafkaPlace, KafkaWatch, Where
from sluicegate_operator.cli.top.sources.kafka_source import KafkaSource
from sluicegate_operator.cli.top.sources.source import SourceError
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, AdminTimeoutError
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, SecurityError
from tests.support.fakes.played_admin import BROKERS, PORT, PlayedCluster

pytestmark = pytest.mark.virtual_time

REFUSED = AdminConnectionError(("b0", PORT), "cannot connect: Connection refused")
PERIOD_S = 5.0


def shop() -> PlayedCluster:
    """Two partitions with leaders on the brokers 0 and 1, and two groups with coordinators there."""
    cluster = PlayedCluster()
    cluster.lead("orders", 0, leader=0, end=100)
    cluster.lead("orders", 1, leader=1, end=50)
    cluster.commit("billing", {("orders", 0): 40, ("orders", 1): 50}, coordinator=0)
    cluster.commit("search", {("orders", 1): 20}, coordinator=1)
    return cluster


def found() -> Where:
    return [("b0", PORT)], PLAINTEXT


def watch(cluster: PlayedCluster, find: Callable[[], Where] = found, *, only_kafka: bool = False) -> KafkaWatch:
    now_s = asyncio.get_running_loop().time
    return KafkaWatch(KafkaPlace("shop", find, only_kafka), now_s, PERIOD_S, cluster.admin)


async def asked(cluster: PlayedCluster) -> KafkaWatch:
    one = watch(cluster)
    await one.ask_once()
    return one


def lags(one: KafkaWatch) -> dict[str, int | None]:
    assert one.answers is not None
    return {group.id: group.lag for group in one.answers.groups}


async def test_partitions_out_of_sync_and_groups_with_their_lag() -> None:
    cluster = shop()
    cluster.lead("orders", 1, leader=1, end=50, isr=(0, 1))
    one = await asked(cluster)
    assert (lags(one), one.note) == ({"billing": 60, "search": 30}, "")
    assert one.answers is not None
    assert [tuple(each) for each in one.answers.partitions] == [("shop", "orders", 1, 1, BROKERS, (0, 1))]
    assert cluster.clients == 0, "the client is closed after each question"


async def test_an_offset_beyond_the_end_of_the_log_is_no_lag() -> None:
    cluster = shop()
    cluster.commit("ahead", {("orders", 0): 101}, coordinator=0)
    assert lags(await asked(cluster))["ahead"] == 0


async def test_a_lag_without_a_leader_is_unknown() -> None:
    cluster = shop()
    cluster.lead("orders", 1, leader=None, end=50, isr=())
    assert lags(await asked(cluster)) == {"billing": 60, "search": None}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (REFUSED, "broker b0:9092: cannot connect: Connection refused"),
        (AdminTimeoutError(("b0", PORT), "Metadata", 5), "broker b0:9092: no answer to Metadata within 5 s"),
    ],
)
async def test_an_error_keeps_the_former_answers_and_is_a_note_until_the_next_answer(
    error: AdminConnectionError, words: str
) -> None:
    cluster = shop()
    one = await asked(cluster)
    before = one.answers
    cluster.failure = error
    await one.ask_once()
    assert (one.answers, one.note) == (before, f"groups and partitions of shop are not known: {words}")
    cluster.failure = None
    await one.ask_once()
    assert one.note == ""
    assert one.answers is not before


@pytest.mark.parametrize("error", [ValueError("no broker of shop is running"), SecurityError("the key is not a key")])
async def test_a_place_that_cannot_be_found_or_used_is_a_note(error: Exception) -> None:
    def find() -> Where:
        raise error

    one = watch(shop(), find)
    await one.ask_once()
    assert (one.answers, one.note) == (None, f"groups and partitions of shop are not known: {error}")
    assert one.first.is_set()


async def test_an_unexpected_error_does_not_leave_the_console_waiting() -> None:
    def find() -> Where:
        raise RuntimeError("a bug")

    one = watch(shop(), find)
    with pytest.raises(RuntimeError, match="a bug"):
        async with one:
            await one.first.wait()


async def test_a_late_answer_is_given_up_at_the_deadline() -> None:
    cluster = shop()
    one = await asked(cluster)
    before, began_s = one.answers, asyncio.get_running_loop().time()
    cluster.silent = {"describe_topics"}
    await one.ask_once()
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(kafka_answers.DEADLINE_S)
    assert (one.answers, one.note) == (before, "groups and partitions of shop are not known: no answer within 10 s")
    assert cluster.clients == 0


async def test_the_groups_of_a_fenced_broker_are_back_with_their_next_coordinator() -> None:
    cluster = shop()
    cluster.lead("orders", 0, leader=1, end=100, isr=(1, 2))
    cluster.away, cluster.fenced = {0}, {0}
    one = await asked(cluster)
    assert (lags(one), one.note) == ({"search": 30}, "")
    assert one.answers is not None
    assert [each.isr for each in one.answers.partitions] == [(1, 2)]
    cluster.coordinators["billing"] = 2
    await one.ask_once()
    assert lags(one) == {"billing": 60, "search": 30}


async def test_groups_of_a_coordinator_that_does_not_answer_are_a_note() -> None:
    cluster = shop()
    cluster.silent = {"fetch_offsets"}
    one = await asked(cluster)
    assert one.answers is not None
    assert (one.answers.groups, one.answers.note) == ((), "2 groups of shop are not known: no answer within 8 s")
    assert one.note == ""


async def test_a_coordinator_that_leaves_hides_only_its_own_groups() -> None:
    cluster = shop()
    for number in range(2 * kafka_groups.ASKED_AT_A_TIME):
        cluster.commit(f"billing-{number:02}", {}, coordinator=0)
    cluster.lead("orders", 0, leader=1, end=100)

    def leave(method: str) -> None:
        if method == "find_coordinators":
            cluster.away = {0}

    cluster.before = leave
    one = await asked(cluster)
    assert lags(one) == {"search": 30}
    assert one.answers is not None
    assert one.answers.note == ("33 groups of shop are not known: broker b0:9092: cannot connect: Connection refused")


async def test_partitions_are_known_while_a_registered_broker_is_away() -> None:
    cluster = shop()
    cluster.away = {2}
    cluster.lead("orders", 0, leader=0, end=100, isr=(0, 1))
    one = await asked(cluster)
    assert one.answers is not None
    assert [each.isr for each in one.answers.partitions] == [(0, 1)]
    assert one.answers.note.startswith("groups of shop are not known: broker b2:9092: cannot connect")
    [note] = Recorder().view(Look(1.0, "", [], kafka=[one.answers])).notes
    assert note == one.answers.note


async def test_many_groups_are_asked_for_some_at_a_time_and_the_rest_is_left_out() -> None:
    cluster = shop()
    for number in range(kafka_groups.GROUPS_MAX + 1):
        cluster.commit(f"g{number:03}", {}, coordinator=0)
    one = await asked(cluster)
    assert one.answers is not None
    assert len(one.answers.groups) == kafka_groups.GROUPS_MAX
    assert (one.answers.groups[0].id, one.answers.left_out) == ("billing", 3)
    assert cluster.at_once == kafka_groups.ASKED_AT_A_TIME


async def line_of_billing(cluster: PlayedCluster, one: KafkaWatch, recorder: Recorder) -> GroupLine:
    await asyncio.sleep(PERIOD_S)
    await one.ask_once()
    assert one.answers is not None
    view = recorder.view(Look(one.answers.at_s, "", [], kafka=[one.answers]))
    return next(line for line in view.groups if line.id == "billing")


async def test_the_growth_of_a_lag_is_unknown_while_one_of_its_partitions_has_no_leader() -> None:
    cluster, recorder = shop(), Recorder()
    cluster.groups["billing"] = {("orders", 0): 40, ("orders", 1): 0}
    one = watch(cluster)
    assert (await line_of_billing(cluster, one, recorder)).lag == 110
    cluster.ends["orders", 0] = 120
    assert (await line_of_billing(cluster, one, recorder)).lag_s == 20 / PERIOD_S
    cluster.lead("orders", 1, leader=None, end=50, isr=())
    away = await line_of_billing(cluster, one, recorder)
    assert (away.lag, away.lag_s) == (80, None), "the group has not caught up"
    cluster.lead("orders", 1, leader=1, end=50)
    again = await line_of_billing(cluster, one, recorder)
    assert (again.lag, again.lag_s) == (130, None)
    assert (await line_of_billing(cluster, one, recorder)).lag_s == 0


@asynccontextmanager
async def source(cluster: PlayedCluster) -> AsyncIterator[KafkaSource]:
    async with watch(cluster, only_kafka=True) as one:
        yield KafkaSource("b0:9092", one)


async def test_a_broker_that_leaves_is_a_fenced_row_at_the_next_answer() -> None:
    cluster = shop()
    async with source(cluster) as one:
        [seen] = (await one.look()).clusters
        assert [(row.id, row.state) for row in seen.brokers] == [(0, "Serving"), (1, "Serving"), (2, "Serving")]
        cluster.away, cluster.fenced = {2}, {2}
        await asyncio.sleep(PERIOD_S)
        await asyncio.sleep(0.1)
        [seen] = (await one.look()).clusters
        assert [(row.id, row.state) for row in seen.brokers] == [(0, "Serving"), (1, "Serving"), (2, "Fenced")]
        assert [node.problem for node in seen.nodes] == [None, None, "it is fenced"]


async def test_a_registered_broker_that_does_not_answer_has_the_reason() -> None:
    cluster = shop()
    cluster.away = {1}
    async with source(cluster) as one:
        [seen] = (await one.look()).clusters
        assert [node.problem for node in seen.nodes] == [
            None,
            "broker b1:9092: cannot connect: Connection refused",
            None,
        ]


async def test_a_source_without_any_answer_says_why_and_recovers() -> None:
    cluster = shop()
    cluster.failure = REFUSED
    async with source(cluster) as one:
        with pytest.raises(SourceError, match="cannot connect: Connection refused"):
            await one.look()
        cluster.failure = None
        await asyncio.sleep(PERIOD_S)
        await asyncio.sleep(0.1)
        assert (await one.look()).notes == ()


async def test_the_end_of_the_console_does_not_wait_for_an_answer() -> None:
    cluster = shop()
    cluster.silent = {"describe_topics"}
    async with watch(cluster):
        await asyncio.sleep(0.1)
        assert cluster.clients == 1
    assert cluster.clients == 0
