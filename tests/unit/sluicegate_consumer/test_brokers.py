"""The known brokers, and the connections to them."""

from typing import Any, cast

from kafka_bytes.push.messages import Broker
from sluicegate_consumer.brokers import BrokerLink, Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.connection import RequestConnection
from sluicegate_consumer.wire.kafka import Request

BOOTSTRAP = ("seed", 9092)
ONE, TWO = Broker(1, "k1", 9092), Broker(2, "k2", 9092)


def known(*brokers: Broker) -> Brokers:
    found = Brokers([BOOTSTRAP], Settings())
    found.learn(brokers)
    return found


def test_a_broker_with_a_new_address_gets_a_new_link_and_others_keep_theirs() -> None:
    brokers = known(ONE, TWO)
    first, second = brokers.link(1), brokers.link(2)
    brokers.learn([ONE._replace(port=9093), TWO])
    anew = brokers.link(1)
    assert anew is not None
    assert anew is not first
    assert anew.broker.port == 9093
    assert brokers.link(2) is second


def test_a_broker_missing_from_the_metadata_has_no_link() -> None:
    brokers = known(ONE, TWO)
    brokers.link(2)
    brokers.learn([ONE])
    assert brokers.link(2) is None
    assert brokers.get(2) is None


def test_metadata_without_brokers_changes_nothing() -> None:
    brokers = known(ONE)
    brokers.learn([])
    assert brokers.get(1) == ONE


def test_next_address_cycles_through_known_brokers_and_bootstrap_servers() -> None:
    brokers = known(ONE, TWO)
    assert {brokers.next_address() for _ in range(3)} == {("k1", 9092), ("k2", 9092), BOOTSTRAP}
    assert Brokers([BOOTSTRAP], Settings()).next_address() == BOOTSTRAP
    assert Brokers([BOOTSTRAP], Settings()).any_link() is None


class Line:
    """Replaces `RequestConnection`."""

    def __init__(self) -> None:
        self.ended = self.forsaken = self.expired = False
        self.owed = 0

    async def ask(self, request: Request, timeout_s: float) -> memoryview:
        return memoryview(b"")

    def close(self) -> None:
        self.ended = True


class Dialled(BrokerLink):
    """A BrokerLink that notes each of its connections."""

    def __init__(self) -> None:
        super().__init__(ONE, Settings())
        self.lines: list[Line] = []

    async def _dial(self) -> RequestConnection:
        self.lines.append(Line())
        return cast(RequestConnection, cast(Any, self.lines[-1]))


async def test_a_second_connection_opens_while_the_first_is_busy_and_no_third_one() -> None:
    link = Dialled()
    await link.ready()
    await link.ready()
    assert len(link.lines) == 1
    for number in (1, 2, 3):
        link.lines[-1].owed = number
        await link.ready()
        assert len(link.lines) == 2


async def test_a_busy_connection_whose_answer_is_not_awaited_is_closed_first() -> None:
    link = Dialled()
    await link.ready()
    link.lines[0].owed = 1
    await link.ready()
    link.lines[1].owed = 1
    link.lines[0].forsaken = True
    await link.ready()
    assert [each.ended for each in link.lines] == [True, False, False]


async def test_one_that_has_ended_is_replaced() -> None:
    link = Dialled()
    await link.ready()
    link.lines[0].ended = True
    await link.ready()
    assert len(link.lines) == 2


async def test_an_expired_connection_is_replaced_and_closed_once_its_responses_are_there() -> None:
    link = Dialled()
    await link.ready()
    first = link.lines[0]
    first.expired, first.owed = True, 1
    await link.ready()
    assert len(link.lines) == 2
    assert not first.ended
    first.owed = 0
    await link.ready()
    assert len(link.lines) == 2
    assert first.ended
