"""The keys that limit the items of one request."""

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.keys.requests import items_overrides
from broker_runtime.errors import ConfigError
from broker_runtime.node.limits import request_limits
from broker_runtime.wire.limits import DEFAULT_LIMITS
from broker_runtime.wire.versions import OFFSET_COMMIT, PRODUCE
from kafka_bytes.own_keys import BROKER_METADATA

KEY = "sluicegate.request.items.max.overrides"


def test_the_defaults_are_those_of_the_code() -> None:
    limits = request_limits(broker_settings({"node.id": "1"}))
    assert limits.items_max == DEFAULT_LIMITS.items_max == 50_000
    assert limits.items_of(PRODUCE) == 50_000
    assert limits.items_of(OFFSET_COMMIT) == 200_000
    assert limits.items_of(BROKER_METADATA) == 10_000
    for name in ("tagged_fields_max", "tagged_bytes_max", "bytes_max", "response_bytes_max"):
        assert getattr(limits, name) == getattr(DEFAULT_LIMITS, name)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("Produce:2000", {"Produce": 2_000}),
        (" Produce:2000 , Fetch:1024,", {"Produce": 2_000, "Fetch": 1_024}),
    ],
)
def test_overrides_name_apis_as_kafka_does(text: str, found: dict[str, int]) -> None:
    settings = broker_settings({"node.id": "1", KEY: text})
    assert items_overrides(settings.config.sluicegate_request_items_max_overrides) == found


@pytest.mark.parametrize("text", ["Produce", "Produce:", "Produce:many", "Produce:1023", "Produce:-1", "0:5000"])
def test_other_overrides_are_refused_with_what_is_wanted(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must be API:count pairs such as OffsetCommit:200000, separated by commas"):
        items_overrides((text,))
    with pytest.raises(ConfigError, match=KEY.replace(".", r"\.")):
        broker_settings({"node.id": "1", KEY: text})


def test_an_api_that_does_not_exist_is_refused() -> None:
    settings = broker_settings({"node.id": "1", KEY: "Produced:5000"})
    with pytest.raises(ConfigError, match=r"API Produced does not exist; the APIs are .*Produce, "):
        request_limits(settings)
