"""Names and bounds of tags are the broker's: it accepts every tag that a manifest may have."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.config.keys.tags import BUILT_IN_TAGS as BROKERS_OWN
from broker_runtime.config.keys.tags import TAGS_MAX, VALUE_BYTES_MAX, tag_key
from sluicegate_operator.api.crd import definition
from sluicegate_operator.api.models.parts.broker_tags import BUILT_IN_TAGS, NAME_PATTERN, VALUE_MAX, VALUE_PATTERN
from sluicegate_operator.api.models.parts.broker_tags import tag_key as key_of

NAMES = st.text(st.sampled_from("aZ0._/- ö"), max_size=130)


def test_the_list_of_built_in_tags_equals_the_brokers() -> None:
    assert tuple(tag.name for tag in BROKERS_OWN) == BUILT_IN_TAGS


@given(NAMES)
def test_a_name_is_taken_here_if_brokers_take_it(name: str) -> None:
    assert (re.fullmatch(NAME_PATTERN, name) is not None) == (tag_key(key_of(name)) is not None)


@given(st.from_regex(VALUE_PATTERN, fullmatch=True))
def test_brokers_take_every_value_as_it_is(value: str) -> None:
    key = tag_key("tag.team")
    assert key is not None
    assert key.parse(value) == value


def test_the_maximum_leaves_room_for_tags_to_be_removed() -> None:
    brokers = definition("BrokerCluster")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]["brokers"]["properties"]
    assert 2 * brokers["tags"]["maxProperties"] <= TAGS_MAX
    assert 2 * brokers["tagsFromNodeLabels"]["maxProperties"] <= TAGS_MAX
    assert brokers["tags"]["additionalProperties"]["maxLength"] == VALUE_MAX == VALUE_BYTES_MAX


@pytest.mark.parametrize("value", ["", " a", "a ", "\x00", "ö", "a" * 257])
def test_values_that_are_refused(value: str) -> None:
    assert re.fullmatch(VALUE_PATTERN, value) is None
