"""Rows about brokers, and the totals of the heading. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from sluicegate_operator.cli.asking.quota_rows import QuotaRow
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster, ShownNode
from sluicegate_operator.cli.top.model.histories import Histories
from sluicegate_operator.cli.top.model.limit_lines import ClusterLimits
from sluicegate_operator.cli.top.model.lines import BrokerLine, GroupLine, LimitLine, Totals
from sluicegate_operator.cli.top.model.look import BrokerFigures, BrokerKey
from sluicegate_operator.cli.top.model.rates import Rates, sum_of
from sluicegate_operator.planning.layout.cluster_layout import Role

UNSEEN = "Unknown"
"""The state of a broker that the controller does not report, or while there is no view of the controller."""
_NO_FIGURES = BrokerFigures()
_UNREGISTERED = BrokerRow(-1, UNSEEN, 0, None, 0, 0, 0, None, None, None)


class BrokerLines:
    """Computes the rows of brokers from looks. The histories of accepted connections are kept."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._histories = Histories()

    def of_cluster(
        self, cluster: ShownCluster, limits: ClusterLimits, figures: Mapping[BrokerKey, BrokerFigures]
    ) -> list[BrokerLine]:
        """Return a row for each broker that runs here, or that the controller reports."""
        nodes = {node.id: node for node in cluster.nodes if node.role == Role.BROKER}
        registered = {broker.id: broker for broker in cluster.brokers}
        return [
            self._line(
                cluster.name,
                broker_id,
                (registered.get(broker_id, _UNREGISTERED), nodes.get(broker_id)),
                limits,
                figures.get((cluster.name, broker_id), _NO_FIGURES),
            )
            for broker_id in sorted(nodes.keys() | registered.keys())
        ]

    def _line(
        self,
        cluster: str,
        broker_id: int,
        seen: tuple[BrokerRow, ShownNode | None],
        limits: ClusterLimits,
        figures: BrokerFigures,
    ) -> BrokerLine:
        broker, node = seen
        own = limits.own.get(broker_id)
        key = cluster, broker_id
        new_s = own.accept_rate if own is not None else None
        return BrokerLine(
            cluster=cluster,
            id=broker_id,
            state=broker.state,
            problem=_problem(node, own),
            new_s=new_s,
            open=own.connections if own is not None else None,
            held_s=limits.held_s.get(broker_id),
            blocked=limits.blocked.get(broker_id),
            waiting=figures.waiting if figures is not _NO_FIGURES else None,
            loop_ms=None if figures.loop_delay_s is None else figures.loop_delay_s * 1000,
            cpu=None if figures.cpu_s is None else self._rates.growth((*key, "cpu", ""), figures.cpu_s),
            memory=figures.memory,
            requests_s=None
            if figures.requests is None
            else self._rates.growth((*key, "requests", ""), figures.requests),
            out_of_sync=broker.out_of_sync,
            replicas=broker.replicas,
            leaders=broker.leaders,
            heartbeat_s=broker.heartbeat_age_s,
            restarts=0 if node is None else node.restarts,
            address=broker.address or "",
            place="" if node is None else str(node.pod or node.pid or ""),
            trend=self._histories.add(key, new_s or 0.0),
        )


def _problem(node: ShownNode | None, own: QuotaRow | None) -> str:
    if node is None:
        return "" if own is not None else "it does not run here"
    return node.problem or node.limits_unseen or ""


def totals(brokers: Sequence[BrokerLine], limits: Sequence[LimitLine], groups: Iterable[GroupLine]) -> Totals:
    return Totals(
        brokers=len(brokers),
        answering=sum(1 for line in brokers if not line.problem),
        new_s=sum_of(line.new_s for line in brokers),
        open=sum_of(line.open for line in brokers),
        held_s=_held_s(limits),
        loop_ms=max((line.loop_ms for line in brokers if line.loop_ms is not None), default=None),
        out_of_sync=sum(line.out_of_sync for line in brokers),
        lag=sum_of(group.lag for group in groups),
    )


def _held_s(limits: Sequence[LimitLine]) -> float | None:
    held = [line.held_s for line in limits if line.held_s]
    if held:
        return sum_of(held)
    return 0.0 if any(line.held_s is not None for line in limits) else None
