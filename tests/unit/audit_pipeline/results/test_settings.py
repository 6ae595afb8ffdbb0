"""Settings as users write them."""

import json

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.results.settings import APIS, StormLimits, read_mirrors, read_objectives, read_storms
from broker_runtime.apis.table import COUNTED_APIS


def test_unset_storm_limits_have_their_defaults() -> None:
    assert read_storms("{}") == StormLimits()
    assert read_storms('{"held": 5}') == StormLimits(held=5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"rate": 5}', "storms: rate is not known; the keys are connections, held"),
        ('{"held": 0}', "held must be a whole number of at least 1"),
        ('{"connections": true}', "connections must be a whole number"),
        ("[]", "storms must be an object"),
    ],
)
def test_storms_that_make_no_sense_are_named(text: str, says: str) -> None:
    with pytest.raises(BadUseError, match=says):
        read_storms(text)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("window_days", True, "window_days must be a whole number"),
        ("window_days", 367, "window_days must be a whole number"),
        ("topic", False, "topic must be a text"),
        ("principal", "", "principal must be a text that is not empty"),
        (
            "api",
            "produce",
            r"objectives\[0\]: api produce does not exist; the names are Kafka's: .*, Ping, Produce, ",
        ),
    ],
)
def test_what_an_objective_cannot_mean_is_named(key: str, value: object, says: str) -> None:
    objective = {"name": "orders", "api": "Produce", "latency_ms": 50, "target": 0.999, key: value}
    with pytest.raises(BadUseError, match=says):
        read_objectives(json.dumps({"objectives": [objective]}))


def test_objectives_may_name_each_api_that_brokers_serve() -> None:
    assert set(APIS) == {api.name for api in COUNTED_APIS}


def test_more_than_one_build_can_compute_is_refused_with_the_bound() -> None:
    objective = {"api": "Produce", "latency_ms": 50, "target": 0.999}
    objectives = [{**objective, "name": f"o{number}"} for number in range(51)]
    with pytest.raises(BadUseError, match="objectives has 51 entries; one build computes at most 50"):
        read_objectives(json.dumps({"objectives": objectives}))
    assert len(read_objectives(json.dumps({"objectives": objectives[1:]}))) == 50
    mirror = {"name": "m", "source_cluster": "a", "mirror_cluster": "b"}
    with pytest.raises(BadUseError, match=r"mirrors has 21 entries; one build computes at most 20"):
        read_mirrors(json.dumps({"mirrors": [{**mirror, "name": f"m{number}"} for number in range(21)]}))
    with pytest.raises(BadUseError, match=r"101 topics, but at most 100 are allowed: use prefixes"):
        read_mirrors(json.dumps({"mirrors": [{**mirror, "topics": [f"t{number}" for number in range(101)]}]}))
