"""Invented rows of recommended and tried limits, for published results."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

Rows = dict[str, list[dict[str, Any]]]


def recommended(shop: str, mirror: str, names: Sequence[str]) -> Rows:
    """Rows of limits of two clusters: one that holds the storm, one that does not, and one of each address."""
    rows: Rows = {}
    rollout = datetime(2026, 11, 19, 10, tzinfo=UTC)
    days = {"from_date": date(2026, 11, 16), "to_date": date(2026, 11, 22), "strategy": "token-bucket"}
    held = {"storms": 1, "storm_most": 4200, "storm_least": 4200, "is_holding": True}
    rates = {"rate_p50": 1, "rate_p99": 9, "rate_p999": 31}
    burst = {"burst": 260, "burst_at": rollout}
    tried = {"waiting_connections": 9000, "tried_connections": 9000}
    rows["recommended_limits"] = [
        {
            "cluster_id": shop,
            "kind": "listener",
            "target": "EXTERNAL",
            "rate": 24,
            "connections": 61_000,
            **days,
            **held,
        }
        | {
            **rates,
            **burst,
            **tried,
            "why": "24/s is the smallest rate that delays no usual connection by more than 2 s.",
        },
        {"cluster_id": shop, "kind": "cidr", "target": "0.0.0.0/0", "limit_is": "PerAddress", "rate": 6, **days, **held}
        | {"burst": 12, "burst_at": rollout, **tried, "why": "6/s rejects no usual one."},
        {"cluster_id": mirror, "kind": "listener", "target": "MIRROR", "rate": 500, "storms": 1, "is_holding": False}
        | {**days, **rates, "incomplete_windows": 3, "waiting_connections": 70, "why": "no rate holds it."},
    ]
    of_listener = {"cluster_id": shop, "kind": "listener", "target": "EXTERNAL"}
    usual = {"part": "usual", "accepted": 260, "connections": 260, "was_accepted": 260}
    rows["tried_limits"] = [
        {**of_listener, **usual, "client_ip": "10.4.1.17", "client_id": "checkout-7", "delayed": 90}
        | {"delay_p50_us": 400_000, "delay_p99_us": 1_700_000, "delay_max_us": 1_902_000},
        {**of_listener, "part": "storm", "client_ip": "10.4.8.77", "client_id": "loyalty-worker", "connections": 4_800}
        | {"accepted": 300, "delayed": 300, "delay_max_us": 9_000_000, "rejected": 0, "waiting": 4_500},
        {**of_listener, "part": "storm", "connections": 7, "rejected": 7, "was_rejected": 7},
    ]
    rows["tried_limits"] += [
        {**of_listener, **usual, "client_ip": f"10.66.6.{number}", "client_id": name, "delayed": 1, "delay_max_us": 5}
        for number, name in enumerate(names)
    ]
    return rows
