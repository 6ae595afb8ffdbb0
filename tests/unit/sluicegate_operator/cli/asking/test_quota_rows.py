from typing import Any

import pytest

from sluicegate_operator.cli.asking.brokers_asked import AskingError, BrokerAsked
from sluicegate_operator.cli.asking.limits_asked import PAGES_MAX, ask_limits
from sluicegate_operator.cli.asking.quota_rows import BrokerLimits, QuotaRow, quota_rows, share_words
from sluicegate_operator.quotas.observing.shares import ReportedShare


def limit(most_a_second: int | None = None, most: int | None = None, **now: Any) -> dict[str, Any]:
    held = {"held": {"rate": 3, "connections": 1}}
    return {"connection_creation_rate": most_a_second, "max_connections": most} | held | now


def acceptor(most_a_second: int | None = None, most: int | None = None, share: float = 0.0) -> dict[str, Any]:
    return limit(most_a_second, most, rate=50.9, connections=5, blocked_share=share)


LIMITS = {
    "broker": acceptor(None, 100, 0.25),
    "listeners": {"EXTERNAL": acceptor(50, 10, 0.62), "INTERNAL": acceptor()},
    "default_ip": limit(20),
}
GROUP = limit(5, rate=0.5, connections=2) | {"mode": "Enforce", "held": {"delayed": 7}}


def test_limits_rates_blocked_share_and_what_was_held_of_each_target() -> None:
    ips = {"127.0.1.7": limit(5, rate=4.9, connections=1), "127.0.1.9": limit(None, 6, rate=0.0, connections=0)}
    groups = {"default/office": GROUP, "default/what-if": GROUP | {"mode": "Observe"}}
    assert quota_rows([BrokerLimits(0, LIMITS, ips, groups)]) == [
        QuotaRow(0, "broker", None, 100, 50.9, 5, 0.25, 4),
        QuotaRow(0, "listener EXTERNAL", 50, 10, 50.9, 5, 0.62, 4),
        QuotaRow(0, "group default/office", 5, None, 0.5, 2, None, 7),
        QuotaRow(0, "defaultIp", 20, None, None, None, None, 4),
        QuotaRow(0, "ip 127.0.1.7", 5, None, 4.9, 1, None, 4),
        QuotaRow(0, "ip 127.0.1.9", None, 6, 0.0, 0, None, 4),
    ]


def test_an_adaptive_rate_has_its_bounds() -> None:
    adaptive = {"adaptive": {"min_rate": 50, "max_rate": 2000}}
    limits = LIMITS | {"listeners": {"EXTERNAL": acceptor(137) | adaptive, "OTHER": acceptor(9) | {"adaptive": None}}}
    bounds = {row.target: (row.max_rate, row.bounds) for row in quota_rows([BrokerLimits(0, limits)])}
    assert bounds["listener EXTERNAL"] == (137, "50 to 2000")
    assert bounds["listener OTHER"] == (9, "")
    adaptive["adaptive"]["max_rate"] = None  # type: ignore[assignment]
    assert "50 to unlimited" in {row.bounds for row in quota_rows([BrokerLimits(0, limits)])}


def test_a_rate_of_the_cluster_has_the_share_of_each_broker() -> None:
    cluster = {"rate": 400, "share": 133.34, "demand": 210.5, "brokers": 3, "age_s": 0.6, "state": "granted"}
    listeners = {"EXTERNAL": acceptor(400) | {"cluster": cluster}, "OTHER": acceptor(9) | {"cluster": None}}
    groups = {"default/office": GROUP | {"cluster": cluster | {"share": 7.0, "age_s": None, "state": "waiting"}}}
    rows = {row.target: row for row in quota_rows([BrokerLimits(0, LIMITS | {"listeners": listeners}, {}, groups)])}
    assert rows["listener EXTERNAL"].share == ReportedShare(400, 133.34, 210.5, 0.6, "granted")
    assert rows["listener OTHER"].share is None
    words = {target: share_words(row.share) for target, row in rows.items() if row.share is not None}
    assert words == {
        "listener EXTERNAL": "133.3 of 400 (granted 1s ago)",
        "group default/office": "7.0 of 400 (waiting)",
    }


def test_rows_of_one_target_are_together() -> None:
    without_default = LIMITS | {"default_ip": limit()}
    rows = quota_rows([BrokerLimits(number, without_default) for number in (2, 0)])
    assert [(row.target, row.broker_id) for row in rows] == [
        ("broker", 0),
        ("broker", 2),
        ("listener EXTERNAL", 0),
        ("listener EXTERNAL", 2),
    ]


@pytest.mark.parametrize("answer", [{}, {"broker": {}}, LIMITS | {"listeners": []}])
def test_what_has_no_limits_is_an_error(answer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the response has no limits"):
        quota_rows([BrokerLimits(0, answer)])


class Pages:
    """Answers as many pages as there are items, one item on each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[str] = []

    async def get(self, target: str) -> dict[str, Any]:
        self.asked.append(target)
        path, _, after = target.partition("?after=")
        number = int(after or 0) + 1
        following = str(number) if number < self.count else None
        if path == "/connection-limits":
            return LIMITS | {"ips": {str(number): limit(number)}, "next": following}
        return {"groups": {str(number): GROUP}, "next": following}


async def test_all_pages_are_asked_for() -> None:
    pages = Pages(3)
    found = await ask_limits(BrokerAsked("shop", 4, pages.get))
    assert (found.broker_id, found.ips) == (4, {str(number): limit(number) for number in (1, 2, 3)})
    assert found.groups == dict.fromkeys("123", GROUP)
    assert pages.asked[:3] == ["/connection-limits?after=", "/connection-limits?after=1", "/connection-limits?after=2"]
    with pytest.raises(AskingError, match="the broker has more than 100 pages of ips"):
        await ask_limits(BrokerAsked("shop", 4, Pages(PAGES_MAX + 1).get))
