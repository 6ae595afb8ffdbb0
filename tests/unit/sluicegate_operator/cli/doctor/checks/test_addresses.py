"""Addresses of listeners, from attempts to connect to them."""

from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.addresses import Attempt, ListenerAddress, address_results, addresses_of
from sluicegate_operator.cli.doctor.checks.results import Outcome


def listener(exposure: str | None = None, **status: Any) -> dict[str, Any]:
    spec = {} if exposure is None else {"exposure": exposure}
    return {"metadata": {"name": "shop-external"}, "spec": spec, "status": status}


def test_brokers_addresses_are_used_only_from_outside() -> None:
    known: dict[str, Any] = {"bootstrap": "shop:9094", "addresses": ["10.0.0.1:9094", "shop:9094"]}
    assert addresses_of([listener(**known)]) == [ListenerAddress("shop-external", "shop:9094", is_outside=False)]
    assert [one.address for one in addresses_of([listener("LoadBalancer", **known)])] == ["shop:9094", "10.0.0.1:9094"]
    assert addresses_of([listener("NodePort"), listener(bootstrap="")]) == []


@pytest.mark.parametrize(
    ("is_outside", "attempt", "outcome", "words"),
    [
        (True, Attempt(), Outcome.OK, "listener e: connections are accepted by a:1"),
        (False, Attempt(), Outcome.OK, "listener e: connections are accepted by a:1"),
        (True, Attempt("refused"), Outcome.PROBLEM, "listener e: a:1 does not accept a connection from here: refused"),
        (True, Attempt("no name", resolved=False), Outcome.PROBLEM, "listener e: a:1 does not resolve: no name"),
        (
            False,
            Attempt("no name", resolved=False),
            Outcome.SKIPPED,
            "listener e: a:1 resolves only inside the Kubernetes cluster: it was not tried from here",
        ),
    ],
)
def test_an_attempt_is_judged(is_outside: bool, attempt: Attempt, outcome: Outcome, words: str) -> None:
    [one] = address_results({ListenerAddress("e", "a:1", is_outside): attempt})
    assert (one.outcome, one.sentence) == (outcome, words)


def test_the_addresses_of_a_listener_are_one_line() -> None:
    [one] = address_results({ListenerAddress("e", f"a:{port}", True): Attempt() for port in range(1, 4)})
    assert one.sentence == "listener e: connections are accepted by a:1, a:2, a:3"
