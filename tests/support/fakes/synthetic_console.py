"""A source of looks for the console without brokers: the same looks in each run, with a storm, and one broker away."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.asking.why_report import AddressAnswers, BrokerAnswer
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster, ShownNode
from sluicegate_operator.cli.groups.group_report import GroupReport, MemberRow, OffsetRow
from sluicegate_operator.cli.top.model.look import BrokerFigures, ClientFigures, KafkaAnswers, Look, OutOfSync
from sluicegate_operator.planning.layout.cluster_layout import Role

CLUSTER = "shop"
AWAY = "no answer within 3 s"


def wave(number: int, period: float, low: float, high: float, shift: float = 0.0) -> float:
    """Return a value between `low` and `high` that changes from look to look."""
    return low + (high - low) * (0.5 + 0.5 * math.sin(2 * math.pi * (number / period + shift)))


def total(number: int, period: float, low: float, high: float, shift: float = 0.0) -> int:
    """Return the sum of a wave up to this look: a counter whose growth is the wave."""
    turn = 2 * math.pi / period
    swing = (math.cos(2 * math.pi * shift) - math.cos(turn * number + 2 * math.pi * shift)) / turn
    return int(number * (low + high) / 2 + swing * (high - low) / 2)


@dataclass(slots=True)
class SyntheticSource:
    """Looks at a cluster with so many brokers and limited addresses. `away` are brokers that do not answer.

    `changes`: one of how many addresses changes from look to look.
    """

    brokers: int = 3
    addresses: int = 12
    away: frozenset[int] = frozenset({2})
    changes: int = 1
    title: str = "up in .sluicegate"
    asked: list[str] = field(default_factory=list)
    looks: int = 0
    kept: dict[int, QuotaRow] = field(default_factory=dict)

    async def look(self) -> Look:
        self.looks += 1
        return self.look_at(self.looks)

    async def why(self, address: str) -> Sequence[AddressAnswers]:
        self.asked.append(address)
        answers = [
            BrokerAnswer(CLUSTER, one, None, AWAY) if one in self.away else BrokerAnswer(CLUSTER, one, why(address))
            for one in range(self.brokers)
        ]
        return [AddressAnswers(address, tuple(answers), {(CLUSTER, "ip"): ("default/noisy-neighbour",)})]

    async def settle(self) -> None:
        """Do nothing: every answer is there at once."""

    def look_at(self, number: int) -> Look:
        """Return the look of this number, one second after the one before."""
        answering = [one for one in range(self.brokers) if one not in self.away]
        return Look(
            at_s=float(number),
            shown_at=f"12:{number // 60 % 60:02}:{number % 60:02}",
            clusters=[
                ShownCluster(
                    name=CLUSTER,
                    nodes=tuple(self._node(one) for one in range(self.brokers)),
                    brokers=tuple(self._registered(one) for one in range(self.brokers)),
                    unseen="",
                    progress={},
                    quotas=tuple(self._quotas(number, answering)),
                    resources=(),
                )
            ],
            figures={(CLUSTER, one): figures(number, one) for one in answering},
            kafka=[kafka(number, self.away)],
        )

    def _node(self, broker: int) -> ShownNode:
        problem = AWAY if broker in self.away else None
        listeners = {"EXTERNAL": f"127.0.0.1:{9094 + broker}", "INTERNAL": f"127.0.0.1:{19094 + broker}"}
        return ShownNode(broker, Role.BROKER, 4200 + broker, broker % 2, listeners, "127.0.0.1:1", problem)

    def _registered(self, broker: int) -> BrokerRow:
        away = broker in self.away
        return BrokerRow(
            id=broker,
            state="Fenced" if away else "Online",
            epoch=broker + 3,
            heartbeat_age_s=14.2 if away else 0.4,
            leaders=0 if away else 4,
            replicas=6,
            out_of_sync=6 if away else 0,
            metadata_lag=0,
            pid=4200 + broker,
            address=f"127.0.0.1:{9094 + broker}",
        )

    def _quotas(self, number: int, answering: Sequence[int]) -> list[QuotaRow]:
        rows: list[QuotaRow] = []
        for one in answering:
            tried = wave(number, 40, 4, 160, one / 10)
            shown = min(50.0, tried)
            held = total(number, 40, 0, 110, one / 10)
            rows.append(QuotaRow(one, "broker", None, None, shown + 3, 120 + one, 0.0, 0))
            rows.append(
                QuotaRow(
                    one, "listener EXTERNAL", 50, 2000, shown, 110 + one, min(0.97, max(0.0, tried - 50) / 110), held
                )
            )
        first = answering[0] if answering else 0
        for at in range(self.addresses):
            busy = at % self.changes == number % self.changes
            if not busy and at >= 5:
                # A source passes the same object for a limit that it did not read again.
                if at not in self.kept:
                    self.kept[at] = QuotaRow(first, f"ip {address(at)}", 5, 20, float(at % 5), at % 20, None, 0)
                rows.append(self.kept[at])
                continue
            rate = wave(number, 15, 0, 5, at / 7) if busy else float(at % 5)
            held = total(number, 25, 0, 12 - 2 * at, at / 5) if at < 5 else 0
            rows.append(QuotaRow(first, f"ip {address(at)}", 5, 20, rate, at % 20, None, held))
        return rows


def address(at: int) -> str:
    return f"10.{at // 65536 % 256}.{at // 256 % 256}.{at % 256}"


def figures(number: int, broker: int) -> BrokerFigures:
    clients = (
        ClientFigures("alice", "report-loader", 2_400_000.0, 0.0, number * 0.4),
        ClientFigures("", "nightly-export", 0.0, wave(number, 20, 1e6, 9e6), number * 0.1),
    )
    return BrokerFigures(
        loop_delay_s=wave(number, 30, 0.002, 0.06, broker / 5),
        cpu_s=number * (0.2 + broker / 20),
        memory=58_000_000.0 + broker * 1_000_000,
        requests=float(number * (900 + broker * 40)),
        waiting=int(wave(number, 40, 0, 60)),
        clients=clients if broker == 0 else (),
    )


def kafka(number: int, away: frozenset[int]) -> KafkaAnswers:
    lag = int(wave(number, 50, 20_000, 90_000))
    partitions = [OutOfSync(CLUSTER, "orders", one, one % 2, (0, 1, 2), (0, 1)) for one in range(6) if away]
    return KafkaAnswers(
        cluster=CLUSTER,
        at_s=float(number),
        partitions=(*partitions, *([OutOfSync(CLUSTER, "payments", 3, None, (2,), ())] if away else [])),
        groups=(
            group("billing", "Stable", 3, lag),
            group("search-index", "Stable", 2, 40),
            group("old", "Empty", 0, 0),
        ),
    )


def group(name: str, state: str, members: int, lag: int) -> GroupReport:
    rows = tuple(MemberRow(f"{name}-{one}", None, name, "10.0.0.9", 4, 2) for one in range(members))
    offsets = tuple(OffsetRow("orders", one, 500, 500 + lag // 6, lag // 6, None, name, "10.0.0.9") for one in range(6))
    return GroupReport(name, state, "consumer", "consumer", "uniform", 4, lag, rows, offsets)


def why(asked: str) -> Mapping[str, Any]:
    held = {
        "kind": "ip",
        "prefix": 32,
        "mode": "Enforce",
        "shared": False,
        "connection_creation_rate": 5,
        "max_connections": None,
        "cluster": None,
        "rate": 4.9,
        "connections": 7,
        "since": None,
        "held": {"rate": 186},
    }
    return {"address": asked, "connections": 7, "max_connections_per_ip": 20, "holders": [held], "observers": []}
