"""A node in memory: requests that handlers read themselves are limited, and long ones yield the event loop.

`tests/unit/broker_runtime/wire/test_limits.py` has the arrays of all other requests, and `benchmarks/request_limits.py`
measures every array at its limit. The requests here are smaller, with a margin for a busy machine.
"""

import pytest

from broker_runtime.config.keys.authorizer import STANDARD_AUTHORIZER
from broker_runtime.wire.versions import ELECT_LEADERS
from tests.simulation.measured_node import measured_node
from tests.support.requests.filled_requests import filled_request
from tools.request_arrays import Path, arrays_of, served_apis

PROPERTIES = {"sluicegate.request.items.max": "1100", "sluicegate.request.items.max.overrides": ""}
LONGEST_S = 0.025
"""Limit in seconds; the contract is 5 ms."""
HEAVY: dict[str, Path] = {
    "Produce": ("topic_data", "partition_data"),
    "Fetch": ("topics", "partitions"),
    "Metadata": ("topics",),
    "DeleteRecords": ("topics", "partitions"),
}
ITEMS = 4_000
EVERY_ITEMS = 12_000
"""With a step for all of them, most arrays would take more than LONGEST_S."""
DENIED = ("CreateTopics", "DeleteTopics", "DeleteRecords", "Metadata")
"""APIs that check each topic."""
DENIED_ITEMS = 8_000
"""With a step for all of them, CreateTopics would take 26 ms and DeleteTopics 56 ms."""


def test_a_request_that_names_too_much_is_refused_quickly_whatever_its_array() -> None:
    with measured_node(PROPERTIES) as node:
        for role, api in served_apis():
            for path, version in arrays_of(api).items() if api.reads == "frame" else ():
                body, count = filled_request(api.key, version, path, 1_300)
                if count <= 1_100:
                    continue
                taken = node.ask(role, api.key, version, body)
                assert taken.refusals == ("too-many-items",), (api.name, path, taken)
                assert taken.longest_s < LONGEST_S, (api.name, path, taken)


def test_a_denied_request_is_refused_in_short_slices() -> None:
    """Each item is refused another way than without an authorizer."""
    with measured_node({"authorizer.class.name": STANDARD_AUTHORIZER}) as node:
        for role, api in served_apis():
            for path, version in arrays_of(api).items() if api.name in DENIED else ():
                body, _ = filled_request(api.key, version, path, DENIED_ITEMS)
                taken = min((node.ask(role, api.key, version, body) for _ in range(2)), key=lambda one: one.longest_s)
                assert taken.longest_s < LONGEST_S, (api.name, path, taken)


def test_a_request_within_the_limits_is_carried_out_in_short_slices() -> None:
    with measured_node({}) as node:
        for role, api in served_apis():
            if api.name in HEAVY:
                version = arrays_of(api)[HEAVY[api.name]]
                body, _ = filled_request(api.key, version, HEAVY[api.name], ITEMS)
                taken = node.ask(role, api.key, version, body)
                assert (taken.refusals, taken.answer is None) == ((), False), api.name
                assert taken.longest_s < LONGEST_S, (api.name, taken)
                assert taken.total_s > 3 * taken.longest_s, "it was cut into slices"


@pytest.mark.full
def test_every_array_of_every_api_is_carried_out_in_short_slices() -> None:
    with measured_node({}) as node:
        for role, api in served_apis():
            for path, version in arrays_of(api).items():
                body, _ = filled_request(api.key, version, path, EVERY_ITEMS)
                taken = min((node.ask(role, api.key, version, body) for _ in range(2)), key=lambda one: one.longest_s)
                assert taken.longest_s < LONGEST_S, (api.name, path, taken)


def test_a_long_answer_of_the_controller_reaches_the_client_in_short_slices() -> None:
    """Brokers forward ElectLeaders. An answer of 15 MB that is copied takes 40 ms."""
    path: Path = ("topic_partitions", "partitions")
    with measured_node({}) as node:
        body, _ = filled_request(ELECT_LEADERS, 2, path, 50_000, others=0, name_characters=240)
        taken = min((node.ask("broker", ELECT_LEADERS, 2, body) for _ in range(2)), key=lambda one: one.longest_s)
        assert (taken.refusals, len(taken.answer or b"") > 12_000_000) == ((), True), taken
        assert taken.longest_s < LONGEST_S, taken
