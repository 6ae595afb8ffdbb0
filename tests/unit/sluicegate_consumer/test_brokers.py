"""Which brokers are known, and by which connections they are reached."""

from sluicegate_consumer.brokers import Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.wire.push import Broker

BOOTSTRAP = ("seed", 9092)
ONE, TWO = Broker(1, "k1", 9092), Broker(2, "k2", 9092)


def known(*brokers: Broker) -> Brokers:
    found = Brokers([BOOTSTRAP], Settings())
    found.learn(brokers)
    return found


def test_who_has_another_address_is_connected_to_anew_and_who_has_not_keeps_its_link() -> None:
    brokers = known(ONE, TWO)
    first, second = brokers.link(1), brokers.link(2)
    brokers.learn([ONE._replace(port=9093), TWO])
    anew = brokers.link(1)
    assert anew is not None
    assert anew is not first
    assert anew.broker.port == 9093
    assert brokers.link(2) is second


def test_who_is_told_of_no_longer_has_no_link() -> None:
    brokers = known(ONE, TWO)
    brokers.link(2)
    brokers.learn([ONE])
    assert brokers.link(2) is None
    assert brokers.get(2) is None


def test_an_answer_that_names_nobody_is_no_news() -> None:
    brokers = known(ONE)
    brokers.learn([])
    assert brokers.get(1) == ONE


def test_it_goes_round_the_brokers_that_are_known_and_the_bootstrap_servers() -> None:
    brokers = known(ONE, TWO)
    assert {brokers.next_address() for _ in range(3)} == {("k1", 9092), ("k2", 9092), BOOTSTRAP}
    assert Brokers([BOOTSTRAP], Settings()).next_address() == BOOTSTRAP
    assert Brokers([BOOTSTRAP], Settings()).any_link() is None
