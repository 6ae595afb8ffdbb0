"""Who may hold a Lease (coordination.k8s.io/v1), decided from what was read and our own monotonic clock.

Another holder is left alone until its leaseDurationSeconds passed since *we* saw its last change: clocks of two
machines are never compared, the times in the Lease are for people. No I/O, no clock: `lease.py` is the shell.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """There is no Lease yet."""


@dataclass(frozen=True, slots=True)
class Renew:
    """It is ours."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """`former` let go of it (empty) or has not renewed in time."""

    former: str


@dataclass(frozen=True, slots=True)
class Wait:
    """`holder` has it at least until `until_s` of our clock."""

    holder: str
    until_s: float


Decision = Create | Renew | TakeOver | Wait


@dataclass(frozen=True, slots=True)
class Observed:
    """A state of the Lease, and when we saw it first. A write that changes nothing of the spec is no renewal."""

    spec: Mapping[str, Any]
    since_s: float


def observe(before: Observed | None, lease: Mapping[str, Any], now_s: float) -> Observed:
    spec = lease.get("spec") or {}
    return before if before is not None and before.spec == spec else Observed(spec, now_s)


def decide(lease: Mapping[str, Any] | None, identity: str, now_s: float, observed: Observed | None) -> Decision:
    """`observed` comes from `observe` with this very lease; None only where there is no lease."""
    if lease is None or observed is None:
        return Create()
    holder = holder_of(lease)
    if holder == identity:
        return Renew()
    if not holder:
        return TakeOver("")
    duration_s = observed.spec.get("leaseDurationSeconds") or 0
    until_s = observed.since_s + duration_s
    return TakeOver(holder) if now_s >= until_s else Wait(holder, until_s)


def holder_of(lease: Mapping[str, Any]) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def held_lease(lease: Mapping[str, Any], identity: str, duration_s: int, time: str) -> Json:
    """`lease` as it reads when `identity` holds it; its resourceVersion stays, so that a replace compares and swaps."""
    spec = dict(lease.get("spec") or {})
    if spec.get("holderIdentity") != identity:
        spec["acquireTime"] = time
        # The first holder is no transition.
        spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
    spec |= {"holderIdentity": identity, "leaseDurationSeconds": duration_s, "renewTime": time}
    return {**lease, "spec": spec}


def released_lease(lease: Mapping[str, Any], time: str) -> Json:
    """Without a holder; API servers refuse an empty one."""
    spec = {key: value for key, value in (lease.get("spec") or {}).items() if key != "holderIdentity"}
    return {**lease, "spec": {**spec, "renewTime": time}}
