"""Dynamic broker configuration: applied to every broker, corrected, removed again, without changing other keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.api.configs.config_keys import DYNAMIC_CONFIG_KEYS, LIMIT_KEYS
from sluicegate_operator.planning.layout.broker_config import OwnTags, plan_broker_config
from sluicegate_operator.planning.limits.limits import ObservedLimits, SetBrokerConfigs
from tests.support.oracles.limits_model import apply_actions

RETENTION, MIN_ISR = "log.retention.ms", "min.insync.replicas"
WANTED = {RETENTION: "60000"}


def seen(default: dict[str, str] | None = None, own: dict[str, str] | None = None) -> ObservedLimits:
    return ObservedLimits(default or {}, own or {})


@pytest.mark.parametrize(
    ("desired", "observed", "managed", "actions", "managed_after"),
    [
        pytest.param(WANTED, {0: seen()}, (), [SetBrokerConfigs(None, WANTED)], (RETENTION,), id="a new key"),
        pytest.param(WANTED, {0: seen(WANTED)}, (RETENTION,), [], (RETENTION,), id="as it should be"),
        pytest.param(
            WANTED,
            {0: seen({RETENTION: "1"})},
            (RETENTION,),
            [SetBrokerConfigs(None, WANTED)],
            (RETENTION,),
            id="drift",
        ),
        pytest.param(
            WANTED,
            {0: seen(WANTED), 1: seen(WANTED, {RETENTION: "1"})},
            (RETENTION,),
            [SetBrokerConfigs(1, {}, (RETENTION,))],
            (RETENTION,),
            id="one broker's own override hides the value",
        ),
        pytest.param(
            {},
            {0: seen(WANTED)},
            (RETENTION,),
            [SetBrokerConfigs(None, {}, (RETENTION,))],
            (RETENTION,),
            id="not wanted",
        ),
        pytest.param({}, {0: seen()}, (RETENTION,), [], (), id="seen to be gone, so forgotten"),
        pytest.param({}, {}, (RETENTION,), [], (RETENTION,), id="nobody seen, nothing forgotten"),
        pytest.param({}, {0: seen({MIN_ISR: "2"})}, (), [], (), id="somebody else's key stays"),
        pytest.param({}, {0: seen({}, {RETENTION: "1"})}, (), [], (), id="somebody else's override stays"),
        pytest.param(
            {}, {0: seen({"max.connections": "1"})}, ("max.connections",), [], (), id="a limit is never ours to take"
        ),
    ],
)
def test_plans(
    desired: dict[str, str],
    observed: dict[int, ObservedLimits],
    managed: tuple[str, ...],
    actions: list[SetBrokerConfigs],
    managed_after: tuple[str, ...],
) -> None:
    plan = plan_broker_config(desired, observed, managed)
    assert list(plan.actions) == actions
    assert plan.managed == managed_after


def test_a_static_key_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"num\.partitions: the key is not dynamic"):
        plan_broker_config({"num.partitions": "3"}, {}, ())


def test_the_plan_names_lagging_brokers_and_their_differing_keys() -> None:
    observed = {0: seen(WANTED), 1: seen(), 2: seen(WANTED, {RETENTION: "1"}), 3: seen(WANTED | {MIN_ISR: "2"})}
    assert plan_broker_config(WANTED, observed, (MIN_ISR, RETENTION)).lagging == {
        1: "log.retention.ms is not 60000",
        2: "log.retention.ms is not 60000",
        3: "min.insync.replicas is still set",
    }


def test_no_key_belongs_to_two_plans() -> None:
    assert not DYNAMIC_CONFIG_KEYS & set(LIMIT_KEYS)


KEYS = st.sampled_from([RETENTION, MIN_ISR, "log.roll.ms", "max.connections"])
VALUES = st.sampled_from(["1", "2"])
LAYERS = st.dictionaries(KEYS, VALUES)
DESIRED = st.dictionaries(st.sampled_from([RETENTION, MIN_ISR, "log.roll.ms"]), VALUES)


@given(
    DESIRED, st.dictionaries(st.integers(0, 3), st.builds(ObservedLimits, LAYERS, LAYERS), min_size=1), st.sets(KEYS)
)
def test_a_plan_carried_out_leaves_nothing_to_do(
    desired: dict[str, str], observed: dict[int, ObservedLimits], managed: set[str]
) -> None:
    plan = plan_broker_config(desired, observed, managed)
    after = apply_actions(plan.actions, observed)
    again = plan_broker_config(desired, after, plan.managed)
    assert (again.actions, again.lagging, again.managed) == ((), {}, tuple(sorted(desired)))
    for broker_id, view in observed.items():
        strange = {key: value for key, value in view.default.items() if key not in {*desired, *managed}}
        assert strange.items() <= after[broker_id].default.items(), "a key of somebody else was touched"


ZONE, TEAM = "tag.zone", "tag.team"
EVERYBODY = frozenset({0, 1})


def own(values: dict[int, dict[str, str]], *keys: str) -> OwnTags:
    return OwnTags(frozenset(keys or (ZONE,)), values, EVERYBODY)


@pytest.mark.parametrize(
    ("tags", "observed", "managed", "actions", "managed_after"),
    [
        pytest.param(
            own({0: {ZONE: "a"}, 1: {ZONE: "b"}}),
            {0: seen(), 1: seen()},
            (),
            [SetBrokerConfigs(0, {ZONE: "a"}), SetBrokerConfigs(1, {ZONE: "b"})],
            (ZONE,),
            id="each broker has its own",
        ),
        pytest.param(
            own({0: {ZONE: "b"}}),
            {0: seen(own={ZONE: "a"}), 1: seen(own={ZONE: "b"})},
            (ZONE,),
            [SetBrokerConfigs(0, {ZONE: "b"})],
            (ZONE,),
            id="one has moved, and of the other nothing is known now",
        ),
        pytest.param(
            own({0: {}}),
            {0: seen(own={ZONE: "a"})},
            (ZONE,),
            [SetBrokerConfigs(0, {}, (ZONE,))],
            (ZONE,),
            id="its node has no such label any more",
        ),
        pytest.param(
            own({0: {ZONE: "a"}}),
            {0: seen({ZONE: "a"}, {ZONE: "a"})},
            (ZONE,),
            [SetBrokerConfigs(None, {}, (ZONE,))],
            (ZONE,),
            id="it was a tag of all brokers before",
        ),
        pytest.param(
            OwnTags(brokers=EVERYBODY),
            {0: seen(own={ZONE: "a", TEAM: "x"}), 1: seen()},
            (ZONE,),
            [SetBrokerConfigs(0, {}, (ZONE,))],
            (ZONE,),
            id="wanted no more, and what somebody else set stays",
        ),
        pytest.param(
            OwnTags(brokers=EVERYBODY), {0: seen()}, (ZONE,), [], (ZONE,), id="not forgotten before all were seen"
        ),
        pytest.param(OwnTags(brokers=EVERYBODY), {0: seen(), 1: seen()}, (ZONE,), [], (), id="gone everywhere"),
    ],
)
def test_tags_of_one_broker(
    tags: OwnTags,
    observed: dict[int, ObservedLimits],
    managed: tuple[str, ...],
    actions: list[SetBrokerConfigs],
    managed_after: tuple[str, ...],
) -> None:
    plan = plan_broker_config({}, observed, managed, tags)
    assert list(plan.actions) == actions
    assert plan.managed == managed_after
    assert plan_broker_config({}, apply_actions(plan.actions, observed), plan.managed, tags).actions == ()


def test_the_plan_names_brokers_with_a_missing_or_extra_tag() -> None:
    observed = {0: seen(own={ZONE: "b"}), 1: seen(own={TEAM: "x"}), 2: seen({TEAM: "x"}, {ZONE: "c"})}
    tags = own({0: {ZONE: "a"}, 1: {}, 2: {ZONE: "c"}})
    assert plan_broker_config({}, observed, (ZONE, TEAM), tags).lagging == {
        0: "tag.zone is not a",
        1: "tag.team is still set",
        2: "tag.team is still set",
    }


TAGS = st.dictionaries(st.sampled_from([ZONE, TEAM]), VALUES)


@given(
    st.sampled_from([{}, {"tag.all": "1"}]),
    st.dictionaries(st.integers(0, 3), st.builds(ObservedLimits, TAGS, TAGS), min_size=1),
    st.dictionaries(st.integers(0, 3), TAGS),
    st.sets(st.sampled_from([ZONE, TEAM, "tag.all"])),
)
def test_tags_settle_at_once(
    desired: dict[str, str],
    observed: dict[int, ObservedLimits],
    values: dict[int, dict[str, str]],
    managed: set[str],
) -> None:
    tags = OwnTags(frozenset({ZONE, TEAM}), values, frozenset(observed))
    plan = plan_broker_config(desired, observed, managed, tags)
    after = apply_actions(plan.actions, observed)
    again = plan_broker_config(desired, after, plan.managed, tags)
    assert (again.actions, again.lagging) == ((), {})
    assert all(after[one].own == wanted for one, wanted in values.items() if one in after)
