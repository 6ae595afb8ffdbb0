"""From any observed world, executing the plans ends, and then there is nothing to do.

Each module that plans actions is tested against a model of what its actions change: dictionaries, no more. Other
objects, which are not ours, stay unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api import (
    Topic,
    parse_resource,
)
from sluicegate_operator.planning.layout.broker_config import OwnTags, plan_broker_config
from sluicegate_operator.planning.layout.cluster_layout import PROTOCOLS
from sluicegate_operator.planning.limits.connection_groups import group_limits
from sluicegate_operator.planning.limits.limits import (
    Action,
    DesiredLimits,
    LimitKey,
    ObservedLimits,
    SetBrokerConfigs,
    ip_rate,
    is_limit_key,
)
from sluicegate_operator.planning.listeners.exposure import Address
from sluicegate_operator.planning.listeners.listeners import (
    ADVERTISED,
    LISTENERS,
    OpenListener,
    change_to,
    one_by_one,
    open_listeners,
    with_one,
)
from sluicegate_operator.planning.observers.observers import ObservedObservers, diff_observers
from sluicegate_operator.planning.topics.topics import (
    AddPartitions,
    AlterTopicConfigs,
    CreateTopic,
    ObservedTopic,
    TopicOutcome,
    diff_topic,
    judge_observed,
    managed_keys,
)
from tests.support.manifests.bad_manifests import topic
from tests.support.oracles.limits_model import diff_limits, listed
from tests.support.worlds.settling_world import settles, some

BROKERS = st.sets(st.integers(0, 3), max_size=3)


@dataclass
class Brokers:
    """Dynamic configuration of two levels and client quotas, as brokers that share their metadata have them."""

    ids: set[int]
    default: dict[str, str]
    own: dict[int, dict[str, str]]
    quotas: dict[Any, float] = field(default_factory=dict)

    def observed(self) -> dict[int, ObservedLimits]:
        return {
            broker: ObservedLimits(dict(self.default), dict(self.own.get(broker, {})), dict(self.quotas))
            for broker in self.ids
        }

    def do(self, action: Action) -> None:
        if isinstance(action, SetBrokerConfigs):
            level = self.default if action.broker_id is None else self.own.setdefault(action.broker_id, {})
            level.update(action.set)
            for key in action.delete:
                level.pop(key, None)
        elif action.value is None:
            self.quotas.pop(action.key, None)
        else:
            self.quotas[action.key] = action.value


LIMITS = [
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip.overrides",
    "listener.name.external.max.connections",
]
STRANGE = ["log.retention.ms", "listener.name.external.proxy.protocol.trusted"]
VALUES = st.sampled_from(["1", "2", "3"])
QUOTA_KEYS = [
    ip_rate(None),
    ip_rate("10.0.0.1"),
    *group_limits("default/office", 5, 6, shared=True, observe=True),
    *listed("default/office", "10.0.0.0/8", "2001:db8::1"),
]


def brokers(keys: list[str]) -> st.SearchStrategy[Brokers]:
    return st.builds(
        Brokers,
        BROKERS,
        some(keys, VALUES),
        st.dictionaries(st.integers(0, 3), some(keys, VALUES), max_size=3),
        some(QUOTA_KEYS, st.sampled_from([1.0, 2.0])),
    )


@given(
    brokers([*LIMITS, *STRANGE]),
    some(LIMITS, VALUES),
    some(QUOTA_KEYS, st.sampled_from([1.0, 2.0])),
    st.booleans(),
    st.sets(st.sampled_from([*LIMITS, *QUOTA_KEYS])),
)
def test_limits(
    world: Brokers,
    configs: dict[str, str],
    quotas: dict[Any, float],
    exclusive: bool,
    released: set[LimitKey],
) -> None:
    """For brokers whose limits are all ours, and for an Apache Kafka with some of ours."""
    desired = DesiredLimits(configs, quotas, exclusive)
    ours = {*configs, *quotas, *released}
    before = (dict(world.default), dict(world.quotas))

    def look() -> bool:
        actions = diff_limits(desired, world.observed(), released)
        for action in actions:
            world.do(action)
        return bool(actions)

    settles(look)
    if not world.ids:
        assert (world.default, world.quotas) == before, "nobody was seen, so nothing is known to be wrong"
        return
    for view in world.observed().values():
        assert {key: view.in_force(key) for key in configs} == configs
        assert {key: view.quotas.get(key) for key in quotas} == quotas
        if exclusive:
            assert {key for key in {*view.default, *view.own} if is_limit_key(key)} == set(configs)
            assert set(view.quotas) == set(quotas)
    foreign = {key: value for key, value in before[0].items() if key in STRANGE or (not exclusive and key not in ours)}
    assert foreign.items() <= world.default.items()
    if not exclusive:
        assert {key: value for key, value in before[1].items() if key not in ours}.items() <= world.quotas.items()


DYNAMIC = ["log.retention.ms", "log.retention.bytes", "tag.team", "tag.zone", "num.io.threads.unknown"]


@given(
    brokers(DYNAMIC),
    some(DYNAMIC[:3], VALUES),
    st.sets(st.sampled_from(DYNAMIC[:4])),
    st.dictionaries(st.integers(0, 3), some(["tag.zone"], VALUES)),
    st.booleans(),
)
def test_dynamic_configuration(
    world: Brokers, desired: dict[str, str], managed: set[str], values: dict[int, dict[str, str]], zoned: bool
) -> None:
    """A key that left the spec is removed, and forgotten when it is gone; keys of other owners stay."""
    own = OwnTags(frozenset({"tag.zone"}) if zoned else frozenset(), values if zoned else {}, frozenset(world.ids))
    known = tuple(sorted(managed))
    foreign = {key: value for key, value in world.default.items() if key not in {*desired, *managed, *own.keys}}

    def look() -> bool:
        nonlocal known
        plan = plan_broker_config(desired, world.observed(), known, own)
        assert {*desired} <= {*plan.managed}, "what is set is remembered before"
        known = plan.managed
        for action in plan.actions:
            world.do(action)
        return bool(plan.actions)

    settles(look)
    plan = plan_broker_config(desired, world.observed(), known, own)
    assert (plan.actions, plan.lagging) == ((), {})
    if world.ids:
        assert set(plan.managed) == {*desired, *own.keys}
    assert foreign.items() <= world.default.items()


OBSERVER_KEYS = ["observer.class.names", "observer.a.class", "observer.a.size", "observer.b.class"]


@given(brokers(OBSERVER_KEYS), some(OBSERVER_KEYS, VALUES), st.booleans())
def test_observers(world: Brokers, desired: dict[str, str], keeps: bool) -> None:
    def look() -> bool:
        observed = {broker: ObservedObservers(view.default, view.own) for broker, view in world.observed().items()}
        actions = diff_observers(desired, observed, keeps=keeps)
        for action in actions:
            world.do(action)
        return bool(actions)

    settles(look)
    if world.ids and not keeps:
        assert world.default == desired


TOPIC_KEYS = ["retention.ms", "cleanup.policy", "min.insync.replicas"]
OBSERVED_TOPICS = st.builds(
    ObservedTopic, st.just("id"), st.integers(1, 4), st.integers(1, 2), some(TOPIC_KEYS, VALUES)
)


@given(
    st.none() | OBSERVED_TOPICS,
    st.integers(1, 4),
    some(TOPIC_KEYS[:2], st.sampled_from(["1000", "2000"])),
    st.sets(st.sampled_from(TOPIC_KEYS)),
)
def test_topics(seen: ObservedTopic | None, partitions: int, config: dict[str, str], managed: set[str]) -> None:
    config = {key: value for key, value in config.items() if key == "retention.ms"}
    wanted = parse_resource(topic(partitions=partitions, replicas=1, config=config))
    assert isinstance(wanted, Topic)
    known, world = tuple(sorted(managed)), seen
    foreign = {key: value for key, value in (seen.configs if seen else {}).items() if key not in {*managed, *config}}

    def look() -> bool:
        nonlocal known, world
        actions = diff_topic(wanted, world, known)
        known = managed_keys(wanted, world, known)
        for action in actions:
            match action:
                case CreateTopic():
                    assert world is None
                    world = ObservedTopic("new", action.partitions, action.replicas or 1, dict(action.configs))
                case AddPartitions():
                    assert world is not None
                    world = replace(world, partitions=action.total)
                case AlterTopicConfigs():
                    assert world is not None
                    left = {key: value for key, value in world.configs.items() if key not in action.delete}
                    world = replace(world, configs=left | dict(action.set))
                case _:
                    raise AssertionError(f"nothing was said of {action}")
        return bool(actions)

    settles(look)
    assert world is not None
    assert config.items() <= world.configs.items()
    assert foreign.items() <= world.configs.items(), "what another hand has set stays"
    if judge_observed(wanted, seen).outcome is TopicOutcome.ACCEPTED:
        assert world.partitions == partitions
    look()
    assert set(known) == set(config), "what is gone is forgotten"


HOST = "10.0.0.7"
NAMES = ["A", "B", "C"]
OPEN = st.builds(
    OpenListener,
    st.integers(9094, 9097),
    st.builds(Address, st.sampled_from([HOST, "outside.example.org"]), st.integers(30000, 30002)),
    st.sampled_from([(), ("10.0.0.0/8",)]),
)


def distinct_ports(found: dict[str, OpenListener]) -> bool:
    return len({one.port for one in found.values()}) == len(found)


SETS_OF_LISTENERS = some(NAMES, OPEN).filter(distinct_ports)
INTERNAL = {"INTERNAL": OpenListener(9091, Address(HOST, 9091))}


@given(SETS_OF_LISTENERS, SETS_OF_LISTENERS, st.booleans())
def test_listeners(now: dict[str, OpenListener], wanted: dict[str, OpenListener], one_at_a_time: bool) -> None:
    """All together, and each alone, as if a broker refuses them together; INTERNAL is never changed."""
    configs: dict[str, str] = {}
    now, wanted = INTERNAL | now, INTERNAL | wanted

    def carry_out(target: Mapping[str, OpenListener], current: Mapping[str, OpenListener]) -> dict[str, OpenListener]:
        change = change_to(current, target, HOST)
        if change is not None:
            assert set(change.set).isdisjoint(change.delete)
            if LISTENERS in change.set:
                assert PROTOCOLS in change.set
            for key in change.delete:
                configs.pop(key, None)
            configs.update(change.set)
        return open_listeners(configs, HOST)

    # The broker's file has only INTERNAL; all other listeners came by changes like these.
    configs.update(dict.fromkeys((LISTENERS, ADVERTISED), f"INTERNAL://{HOST}:9091"))
    assert carry_out(now, open_listeners(configs, HOST)) == now
    seen = open_listeners(configs, HOST)
    for name in one_by_one(seen, wanted) if one_at_a_time else ():
        step = with_one(seen, wanted, name)
        if distinct_ports(step):
            seen = carry_out(step, seen)

    def look() -> bool:
        found = open_listeners(configs, HOST)
        return carry_out(wanted, found) != found

    settles(look)
    assert open_listeners(configs, HOST) == wanted
    assert change_to(wanted, wanted, HOST) is None
