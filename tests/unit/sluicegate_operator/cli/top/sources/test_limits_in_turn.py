"""The requests for limits, with few addresses and with many."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.cli.asking.brokers_asked import AskingError, BrokerAsked
from sluicegate_operator.cli.asking.quota_rows import quota_rows
from sluicegate_operator.cli.top.sources.limits_in_turn import LimitsInTurn

LIMIT = {"connection_creation_rate": 5, "max_connections": None, "rate": 1.0, "connections": 2, "held": {"rate": 3}}
PAGE = 3


class Broker:
    """A broker with limits on addresses, of which some are refused; it answers in pages of three."""

    def __init__(self, broker_id: int, ips: list[str], refused: list[str] = ()) -> None:  # type: ignore[assignment]
        self.ips, self.refused = ips, list(refused)
        self.targets: list[str] = []
        self.silent = False
        self.asked = BrokerAsked("shop", broker_id, self.get, self.text)

    async def get(self, target: str) -> dict[str, Any]:
        self.targets.append(target)
        if self.silent:
            raise AskingError("no answer within 3 s")
        path, _, query = target.partition("?")
        if path == "/connection-quotas":
            return {"groups": {}, "next": None}
        shared = {"broker": LIMIT, "listeners": {}, "default_ip": LIMIT}
        if query == "held=true":
            return {**shared, "ips": dict.fromkeys(self.refused, LIMIT), "groups": {}, "left_out": 0}
        after = query.removeprefix("after=")
        found = [ip for ip in sorted(self.ips) if ip > after]
        return {
            **shared,
            "ips": dict.fromkeys(found[:PAGE], LIMIT),
            "next": found[PAGE - 1] if len(found) > PAGE else None,
        }

    async def text(self, target: str) -> str:
        if self.silent:
            raise AskingError("no answer within 3 s")
        return "process_cpu_seconds_total 7\n"


async def looked(limits: LimitsInTurn, *brokers: Broker) -> list[set[str]]:
    """The addresses of each broker's answer to one look."""
    limits.begin()
    for broker in brokers:
        broker.targets.clear()
    answers = await asyncio.gather(*(limits.ask(broker.asked) for broker in brokers), return_exceptions=True)
    return [
        set() if isinstance(answer, BaseException) else {row.target.removeprefix("ip ") for row in answer.rows}
        for answer in answers
    ]


async def test_with_few_addresses_each_broker_sends_all_of_them() -> None:
    limits = LimitsInTurn()
    first, second = Broker(0, ["a", "b"]), Broker(1, ["a", "b"], ["z"])
    assert await looked(limits, first, second) == [{"a", "b"}, {"a", "b", "z"}]
    assert len(first.targets) == len(second.targets) == 3
    assert limits.figures["shop", 0].cpu_s == 7


async def test_with_many_addresses_one_broker_sends_page_after_page() -> None:
    limits = LimitsInTurn()
    names = [f"{one:02}" for one in range(8)]
    first, second = Broker(0, names, ["05"]), Broker(1, names, ["07"])
    assert (await looked(limits, first, second))[0] == {"00", "01", "02", "05"}
    assert await looked(limits, first, second) == [set(names[:6]), {"07"}]
    assert await looked(limits, first, second) == [set(names), {"07"}]
    assert len(first.targets) == 3
    assert [target for target in second.targets if "after" in target and "limits" in target] == []
    # The next round finds what has changed.
    first.ips = [*names[1:], "99"]
    for _ in range(3):
        found = await looked(limits, first, second)
    assert found[0] == {*names[1:], "99"}


async def test_brokers_send_all_addresses_again_when_they_are_few() -> None:
    limits = LimitsInTurn()
    names = [f"{one:02}" for one in range(8)]
    first, second = Broker(0, names), Broker(1, names)
    for _ in range(3):
        await looked(limits, first, second)
    first.ips = second.ips = ["a"]
    await looked(limits, first, second)
    assert await looked(limits, first, second) == [{"a"}, {"a"}]


async def test_another_broker_sends_the_pages_if_the_first_is_away() -> None:
    limits = LimitsInTurn()
    names = [f"{one:02}" for one in range(5)]
    first, second = Broker(0, names), Broker(1, names)
    await looked(limits, first, second)
    first.silent = True
    await looked(limits, first, second)
    for _ in range(2):
        found = await looked(limits, second, first)
    assert found[0] == set(names)
    assert ("shop", 0) not in limits.figures


async def test_a_broker_that_does_not_answer_is_an_error() -> None:
    broker = Broker(0, ["a"])
    broker.silent = True
    with pytest.raises(AskingError, match="no answer"):
        await LimitsInTurn().ask(broker.asked)


async def test_missing_metrics_are_no_error() -> None:
    limits = LimitsInTurn()
    broker = Broker(0, ["a"])
    await limits.ask(BrokerAsked("shop", 0, broker.get))
    assert limits.figures["shop", 0].cpu_s is None


async def test_a_row_of_a_page_that_was_not_read_again_is_the_same_object() -> None:
    limits = LimitsInTurn()
    broker = Broker(0, [f"{one:02}" for one in range(8)])
    limits.begin()
    before = {row.target: row for row in (await limits.ask(broker.asked)).rows}
    limits.begin()
    after = {row.target: row for row in (await limits.ask(broker.asked)).rows}
    assert [after[target] is row for target, row in before.items()] == [True] * PAGE
    assert {row.target for row in quota_rows([await limits.ask(broker.asked)])} == {
        "broker",
        "defaultIp",
        *after,
        "ip 06",
        "ip 07",
    }
