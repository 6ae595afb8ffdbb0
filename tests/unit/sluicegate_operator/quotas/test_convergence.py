"""From any observed world, the quota path reaches the plan, reports it, and then has nothing to do.

Brokers are a model: dictionaries that changes are applied to. The ledger remembers the limits that they lack.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate_operator.api import BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.planning.limits.connection_groups import group_limits
from sluicegate_operator.planning.limits.limits import (
    Lifted,
    LimitKey,
    ObservedLimits,
    changes,
    changes_of,
    ip_rate,
    is_limit_key,
    missing,
)
from sluicegate_operator.planning.limits.workloads import Members
from sluicegate_operator.quotas.plan import Claim, QuotaPlan, Scope, plan_in_steps
from sluicegate_operator.quotas.state.known import ClusterFacts, KnownBrokers
from sluicegate_operator.quotas.state.state import GovernedQuotas
from tests.support.manifests.bad_manifests import Json, listener, quota
from tests.support.oracles.limits_model import apply_actions, listed
from tests.support.worlds.settling_world import NOW, shop, some

SHOP = shop()
EXTERNAL = cast(BrokerListener, parse_resource(listener()))
ENDS = [NOW, NOW + timedelta(hours=1)]
WORKLOAD: Json = {"workload": {"podSelector": {"matchLabels": {"app": "a"}}}}
BROKERS = (0, 1, 2)
PASSES_MAX = 3


def written_of(targets: list[Json], **more: Any) -> st.SearchStrategy[Json]:
    """Specs that the API server accepts."""
    limits = [
        {"maxConnectionCreationRate": 2},
        {"maxConnections": 2},
        {"maxConnectionCreationRate": 1, "maxConnections": 3},
    ]
    ends = st.sampled_from([end.isoformat() for end in ENDS])
    rest = st.fixed_dictionaries({"target": st.sampled_from(targets)}, optional={"expiresAt": ends, **more})
    return st.builds(lambda one, other: {**one, **other}, st.sampled_from(limits), rest)


OF_CLUSTER: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"target": target, "maxConnectionCreationRate": 2, "scope": "Cluster", **more}
        for target, more in (
            ({"broker": {}}, {}),
            ({"listener": "EXTERNAL"}, {"maxConnections": 2}),
            ({"ip": "10.0.0.1"}, {"maxConnections": 2}),
            ({"cidr": "10.0.0.0/8"}, {"limitIs": "Shared"}),
            (WORKLOAD, {"limitIs": "Shared", "mode": "Observe"}),
        )
    ]
)
QUOTAS = st.one_of(
    OF_CLUSTER,
    written_of([{"broker": {}}, {"listener": "EXTERNAL"}, {"ip": "10.0.0.1"}]),
    written_of([{"cidr": "10.0.0.0/8"}, WORKLOAD], limitIs=st.just("Shared"), mode=st.just("Observe")),
    written_of([WORKLOAD]),
)
NAMES = st.sampled_from(["a", "b"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("quota"), NAMES, st.none() | QUOTAS),
        st.tuples(st.just("listeners"), st.booleans()),
        st.tuples(
            st.just("pods"),
            NAMES,
            st.dictionaries(st.sampled_from(["10.1.0.1", "::1"]), st.sampled_from([7.0, 8.0])),
        ),
        st.tuples(st.just("clock"), st.sampled_from([NOW - timedelta(hours=1), *ENDS, NOW + timedelta(days=1)])),
    ),
    max_size=10,
)
CONFIGS = some(
    [
        "max.connections",
        "max.connections.per.ip.overrides",
        "listener.name.external.max.connections",
        "listener.name.external.connection.quota.scope",
        "num.io.threads",
    ],
    st.sampled_from(["1", "2"]),
)
OBSERVED = st.builds(
    ObservedLimits,
    CONFIGS,
    CONFIGS,
    some(
        [
            ip_rate(None),
            ip_rate("10.0.0.1"),
            *group_limits("default/a", 5, 6, shared=True, observe=True, of_cluster=True),
            *listed("default/a", "10.0.0.0/8", "10.1.0.1"),
        ],
        st.sampled_from([1.0, 7.0]),
    ),
)


@dataclass
class Written:
    """The manifests, the pods and the time."""

    quotas: dict[str, ConnectionQuota] = field(default_factory=dict)
    listeners: list[BrokerListener] = field(default_factory=lambda: [EXTERNAL])
    pods: dict[str, dict[str, float]] = field(default_factory=dict)
    now: datetime = NOW
    generation: int = 0

    def change(self, what: str, *how: Any) -> None:
        match what, *how:
            case "quota", name, None:
                self.quotas.pop(name, None)
                self.pods.pop(name, None)
            case "quota", name, spec:
                self._quota(name, spec)
            case "listeners", is_there:
                self.listeners = [EXTERNAL] if is_there else []
            case "pods", name, addresses:
                if name in self.quotas and self.quotas[name].spec.target.workload is not None:
                    self.pods[name] = addresses
            case "clock", moment:
                self.now = moment

    def _quota(self, name: str, spec: Json) -> None:
        self.generation += 1
        document = quota() | {"metadata": {"name": name, "uid": name, "generation": self.generation}}
        made = parse_resource(document | {"spec": {"clusterRef": {"name": "shop"}, **spec}})
        assert isinstance(made, ConnectionQuota)
        self.quotas[name] = made
        if made.spec.target.workload is None:
            self.pods.pop(name, None)

    @property
    def scope(self) -> Scope:
        return Scope.of(SHOP, self.listeners)

    def plan_anew(self) -> QuotaPlan:
        """The plan of an operator without any earlier state."""
        claims = [Claim.of(quota, self.pods.get(name)) for name, quota in self.quotas.items()]
        steps = plan_in_steps(self.scope, claims, self.now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(QuotaPlan, end.value)


class Path:
    """The quota path without its I/O: plan, send changes, read back, send missing limits, report."""

    def __init__(self, world: dict[int, ObservedLimits]) -> None:
        self.world = world
        self.governed = GovernedQuotas(brokers=KnownBrokers(facts=ClusterFacts(tuple(world))))
        self.sent: set[LimitKey] = set()
        self.told: list[str] = []

    def run(self, written: Written) -> None:
        governed, ledger = self.governed, self.governed.brokers.ledger
        selected = {name: Members(addresses) for name, addresses in written.pods.items()}
        for _ in governed.replan(SHOP, written.scope, written.quotas.values(), selected, written.now):
            pass
        self.sent.clear()
        changed, desired = governed.unsent, governed.plan.desired
        ledger.changed(changed)
        if ledger.any_whole:
            self._do(changes(desired, changed))
        asked = {broker_id: ledger.asks(broker_id, frozenset()) for broker_id in self.world}
        lacking = {b: missing(desired, seen, Lifted(True), asked[b]) for b, seen in self.world.items()}
        self._do(changes_of(desired, lacking))
        governed.unsent -= changed
        for broker_id, seen in self.world.items():
            lacks = missing(desired, seen, Lifted(True), asked[broker_id])
            ledger.answered(broker_id, ("b", broker_id), asked[broker_id], lacks, seen)
        self._tell()
        # With the written statuses, as the API server has them now.
        written.quotas |= {name: known.quota for name, known in governed.quotas.items()}

    def _do(self, actions: Iterable[Any]) -> None:
        actions = list(actions)
        self.sent |= {key for action in actions for key in action.keys}
        self.world = apply_actions(actions, self.world)

    def _tell(self) -> None:
        self.told = []
        for _ in self.governed.assess(FirstSeen(), NOW, sent=frozenset(self.sent)):
            pass
        while (name := self.governed.statuses.waiting.take()) is not None:
            known = self.governed.quotas[name]
            status = self.governed.status(name, NOW, NOW)
            assert status is not None
            known.written = known.assessment
            self.governed.note_written(known.quota, known.quota.model_copy(update={"status": status}))
            self.told.append(name)

    def settles(self, written: Written) -> None:
        """Assert that within a few passes there is nothing to send and nothing to report."""
        for _ in range(PASSES_MAX):
            self.run(written)
            if not self.sent and not self.told:
                return
        raise AssertionError(f"still sends {self.sent} and tells {self.told}")


@settings(deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(BROKERS, OBSERVED)), CHANGES)
def test_from_any_world_the_path_gets_to_its_plan_and_then_does_nothing(
    world: dict[int, ObservedLimits], written_changes: list[Any]
) -> None:
    written, path = Written(), Path(world)
    for change in [("clock", NOW), *written_changes]:
        written.change(*change)
        path.settles(written)
        plan = path.governed.plan
        assert plan == written.plan_anew()
        for view in path.world.values():
            assert {key: value for key, value in view.default.items() if is_limit_key(key)} == plan.desired.configs
            assert not any(is_limit_key(key) for key in view.own)
            assert view.quotas == plan.desired.quotas
        for name, known in path.governed.quotas.items():
            verdict = plan.verdicts[name]
            assert known.written is not None
            assert known.written.ruling == plan.of[name]
            assert known.quota.status.brokers == ("3/3" if verdict.target_found else "")


@settings(deadline=None)
@given(CHANGES)
def test_the_reported_changes_are_exactly_the_limits_that_brokers_lack(written_changes: list[Any]) -> None:
    """The brokers had all limits before."""
    written, path = Written(), Path({0: ObservedLimits()})
    path.settles(written)
    for change in written_changes:
        written.change(*change)
        before = path.governed.plan.desired
        path.run(written)
        after, changed = path.governed.plan.desired, path.governed.plan.changed
        keys: set[LimitKey] = {*before.configs, *before.quotas, *after.configs, *after.quotas}
        assert changed == {key for key in keys if before.value(key) != after.value(key)}
        assert path.sent == changed
