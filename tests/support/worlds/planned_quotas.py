"""Plans the ConnectionQuotas of a cluster pass after pass, as the quota path does, and keeps what each pass changes.

planned.select({"pods": {"10.0.0.1": 7.0}})
for _ in planned.update(cluster, listeners, quotas, now):
    pass
planned.plan, planned.changed_keys, planned.changed_quotas
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota
from sluicegate_operator.api.models.connection_quota import AFTER_ALL
from sluicegate_operator.planning.limits.limits import LimitKey
from sluicegate_operator.planning.limits.workloads import Members
from sluicegate_operator.quotas.plan import QuotaPlan, Scope
from sluicegate_operator.quotas.state.state import GovernedQuotas


class PlannedQuotas:
    """A plan of quotas over several passes.

    `changed_keys` and `changed_quotas` grow with each pass, until a test clears them.
    """

    def __init__(self, *, in_all_namespaces: bool = True) -> None:
        self._in_all_namespaces = in_all_namespaces
        self._selected: dict[str, Members] = {}
        self.governed = GovernedQuotas()
        self.changed_keys: set[LimitKey] = set()
        self.changed_quotas: set[str] = set()

    @property
    def plan(self) -> QuotaPlan:
        return self.governed.plan

    @property
    def next_expiry(self) -> datetime | None:
        """The time of the next expiry; None if no limit ends."""
        ends = self.plan.next_expiry
        return None if ends == AFTER_ALL else ends

    def select(self, workloads: Mapping[str, Mapping[str, float]]) -> None:
        """Set the addresses that these quotas select from the next pass on, with the numbers of their pods."""
        self._selected |= {name: Members(addresses) for name, addresses in workloads.items()}

    def update(
        self,
        cluster: BrokerCluster | None,
        listeners: Sequence[BrokerListener],
        quotas: Iterable[ConnectionQuota],
        now: datetime,
    ) -> Iterator[None]:
        """Run one pass, in its steps."""
        quotas, before = list(quotas), self.plan
        scope = Scope.of(cluster, listeners, in_all_namespaces=self._in_all_namespaces)
        selected = {one.name: self._selected.pop(one.name) for one in quotas if one.name in self._selected}
        yield from self.governed.replan(cluster, scope, quotas, selected, now)
        self.changed_keys |= self.plan.changed
        self.changed_quotas |= {name for name, one in self.plan.of.items() if before.of.get(name) is not one}
