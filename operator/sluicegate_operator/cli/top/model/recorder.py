"""Computes the rows of the console from one look after another: rates and histories need more than one. Pure."""

from sluicegate_operator.cli.top.model.broker_lines import BrokerLines, totals
from sluicegate_operator.cli.top.model.kafka_lines import GroupLines, PartitionLines, client_lines
from sluicegate_operator.cli.top.model.limit_lines import LimitLines, Storms
from sluicegate_operator.cli.top.model.lines import BrokerLine, LimitLine, TopView
from sluicegate_operator.cli.top.model.look import Look
from sluicegate_operator.cli.top.model.rates import Rates


class Recorder:
    """The counters of the last look and the histories of figures, for the view of the next look."""

    def __init__(self) -> None:
        self._of_brokers, self._of_kafka = Rates(), Rates()
        self._limits = LimitLines()
        self._brokers = BrokerLines(self._of_brokers)
        self._storms = Storms()
        self._groups = GroupLines()
        self._partitions = PartitionLines()

    def view(self, look: Look) -> TopView:
        """Return all rows at the time of `look`. Looks are given in the order of their times."""
        for rates in (self._of_brokers, self._of_kafka):
            rates.begin(look.at_s)
        limits: list[LimitLine] = []
        computed: list[LimitLine] = []
        brokers: list[BrokerLine] = []
        for cluster in look.clusters:
            found = self._limits.of_cluster(cluster, self._of_brokers.passed_s)
            limits += found.lines
            computed += found.computed
            brokers += self._brokers.of_cluster(cluster, found, look.figures)
        groups = self._groups.of(look)
        unseen = [f"no view of the controller of {one.name}: {one.unseen}" for one in look.clusters if one.unseen]
        groups_unknown = [one.note for one in look.kafka if one.note]
        left_out = [
            f"{one.left_out} more groups of {one.cluster} are not shown; `sluicegate groups list` has all"
            for one in look.kafka
            if one.left_out
        ]
        return TopView(
            shown_at=look.shown_at,
            clusters=tuple(one.name for one in look.clusters),
            totals=totals(brokers, computed, groups),
            brokers=tuple(brokers),
            limits=limits,
            clients=tuple(client_lines(look.figures, self._of_kafka)),
            storms=tuple(self._storms.lines(computed, self._limits.find, look.at_s)),
            groups=tuple(groups),
            partitions=tuple(self._partitions.of(look.kafka, look.at_s)),
            notes=(*look.notes, *unseen, *groups_unknown, *left_out),
        )
