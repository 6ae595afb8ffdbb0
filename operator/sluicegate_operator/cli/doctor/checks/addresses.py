"""Judge the addresses of listeners, from attempts to resolve them and to connect to them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import ADDRESSES
from sluicegate_operator.cli.doctor.checks.results import CheckResult, listed


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """An address of a listener. `is_outside`: clients outside of the Kubernetes cluster use it too."""

    listener: str
    address: str
    is_outside: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of connecting to an address. `error` is empty after a success."""

    error: str = ""
    resolved: bool = True


def addresses_of(listeners: Sequence[Mapping[str, Any]]) -> list[ListenerAddress]:
    """Return the addresses in the status of BrokerListeners; for a Service inside Kubernetes only its own address."""
    found = []
    for body in listeners:
        status = body.get("status") or {}
        is_outside = body["spec"].get("exposure", "ClusterIP") != "ClusterIP"
        brokers = status.get("addresses") or () if is_outside else ()
        known = dict.fromkeys(filter(None, (status.get("bootstrap"), *brokers)))
        found += [ListenerAddress(body["metadata"]["name"], address, is_outside) for address in known]
    return found


def address_results(attempts: Mapping[ListenerAddress, Attempt]) -> Iterator[CheckResult]:
    """Yield a result for each address without a connection, and one for each listener with one."""
    good: dict[str, list[str]] = {}
    for at, attempt in attempts.items():
        name = f"listener {at.listener}: {at.address}"
        if not attempt.error:
            good.setdefault(at.listener, []).append(at.address)
        elif not at.is_outside:
            where = "exists only" if attempt.resolved else "resolves only"
            yield ADDRESSES.skipped(f"{name} {where} inside the Kubernetes cluster: it was not tried from here")
        elif attempt.resolved:
            yield ADDRESSES.problem(f"{name} does not accept a connection from here: {attempt.error}")
        else:
            yield ADDRESSES.problem(f"{name} does not resolve: {attempt.error}")
    for listener, addresses in good.items():
        yield ADDRESSES.ok(f"listener {listener}: connections are accepted by {listed(addresses)}")
