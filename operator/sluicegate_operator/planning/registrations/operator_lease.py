"""Tell from the operator's Lease how old statuses may be: they have no time of their own (decision 48). Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

DEFAULT_NAME = "sluicegate-operator"
CLOCKS_DIFFER_S = 30.0
"""Tolerance in seconds, because the time in a Lease is that of the operator's clock."""


def operator_silence(leases: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """Return a sentence if no operator has renewed its Lease lately; empty otherwise, and without any Lease.

    `leases`: those with the operator's name, in any namespace.
    """
    silent = [(age_s, lease) for lease in leases if (age_s := _silent_s(lease, now)) is not None]
    if not silent or len(silent) < len(leases):
        return ""
    age_s, lease = min(silent, key=lambda found: found[0])
    meta = lease["metadata"]
    return (
        f"the operator has not renewed its Lease {meta['namespace']}/{meta['name']} for {age_s:.0f} s: it is"
        " not running, or does not reach the API server. Statuses are outdated, and changes take effect when"
        " the operator is running again"
    )


def _silent_s(lease: Mapping[str, Any], now: datetime) -> float | None:
    """Return for how many seconds the Lease has not been renewed; None while it is held."""
    spec = lease.get("spec") or {}
    try:
        age_s = (now - datetime.fromisoformat(spec["renewTime"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None
    patience_s = 0.0 if not spec.get("holderIdentity") else float(spec.get("leaseDurationSeconds") or 0)
    return age_s if age_s > patience_s + CLOCKS_DIFFER_S else None
