"""Decides which process may hold a Lease (coordination.k8s.io/v1), from the Lease and the process's monotonic clock.

Another holder's Lease is valid until its leaseDurationSeconds have passed since *this process* saw its last change.
Clocks of two machines are never compared: the times in the Lease are for users. No I/O, no clock: `lease.py` provides
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """The decision to create the Lease, which does not exist yet."""


@dataclass(frozen=True, slots=True)
class Renew:
    """The decision to renew the Lease, which this process holds."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The decision to take over the Lease of another operator process.

    `former` has not renewed the Lease in time; an empty `former` means that the Lease was released.
    """

    former: str


@dataclass(frozen=True, slots=True)
class WaitForLease:
    """The decision to wait, because another process holds the Lease.

    `holder` holds the Lease at least until `until_s` of this process's clock.
    """

    holder: str
    until_s: float


Decision = Create | Renew | TakeOver | WaitForLease


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A state of the Lease, and the time when this process first saw it.

    A write that leaves the spec unchanged does not renew the Lease.
    """

    spec: Mapping[str, Any]
    since_s: float


def observe(before: ObservedLease | None, lease: Mapping[str, Any], now_s: float) -> ObservedLease:
    spec = lease.get("spec") or {}
    return before if before is not None and before.spec == spec else ObservedLease(spec, now_s)


def decide(lease: Mapping[str, Any] | None, identity: str, now_s: float, observed: ObservedLease | None) -> Decision:
    """Decide what to do with the Lease.

    `observed` is the result of `observe` for this Lease; None only if there is no Lease.
    """
    if lease is None or observed is None:
        return Create()
    holder = holder_of(lease)
    if holder == identity:
        return Renew()
    if not holder:
        return TakeOver("")
    duration_s = observed.spec.get("leaseDurationSeconds") or 0
    until_s = observed.since_s + duration_s
    return TakeOver(holder) if now_s >= until_s else WaitForLease(holder, until_s)


def holder_of(lease: Mapping[str, Any]) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def held_lease(lease: Mapping[str, Any], identity: str, duration_s: int, time: str) -> Json:
    """Return the manifest of a Lease that `identity` holds.

    Its resourceVersion stays, so that a replace is a compare-and-swap.
    """
    spec = dict(lease.get("spec") or {})
    if spec.get("holderIdentity") != identity:
        spec["acquireTime"] = time
        # The first holder does not count as a transition.
        spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
    spec |= {"holderIdentity": identity, "leaseDurationSeconds": duration_s, "renewTime": time}
    return {**lease, "spec": spec}


def released_lease(lease: Mapping[str, Any], time: str) -> Json:
    """Return `lease` without a holder: API servers refuse an empty holderIdentity, so the field is removed."""
    spec = {key: value for key, value in (lease.get("spec") or {}).items() if key != "holderIdentity"}
    return {**lease, "spec": {**spec, "renewTime": time}}
