"""Our writer of messages against kio's: the same bytes, at once and in steps."""

from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_runtime.errors import MESSAGE_MAX
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.wire.encoding.decode import read_entity, read_in_steps, released
from broker_runtime.wire.encoding.encode import Fields, MadeItems, Pieces, encode_entity, encode_in_steps
from broker_runtime.wire.limits import DEFAULT_LIMITS, ItemBudget
from broker_runtime.wire.messages import decode_response, encode_response_body, message_type
from broker_runtime.wire.versions import CREATE_TOPICS, DESCRIBE_CONFIGS, FIND_COORDINATOR, LIST_GROUPS
from tests.support.requests.random_messages import KIND_IDS, KINDS, messages


def in_steps(kind: Any, content: dict[str, Any]) -> bytes:
    pieces = Pieces()
    at_once(encode_in_steps(kind, content, pieces))
    found = b"".join(pieces.all())
    assert len(found) == pieces.size
    return found


@pytest.mark.parametrize(("key", "direction"), KINDS, ids=KIND_IDS)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_encoding_equals_kios_and_decodes_in_steps(key: int, direction: str, data: st.DataObject) -> None:
    kind, body = data.draw(messages(key, direction))
    entity = read_entity(kind, body)
    content = asdict(entity)
    assert encode_entity(kind, content) == body
    assert in_steps(kind, content) == body
    assert at_once(read_in_steps(kind, memoryview(body), ItemBudget(DEFAULT_LIMITS, key))) == entity


def test_a_missing_field_is_a_mistake_that_names_it() -> None:
    kind = message_type(LIST_GROUPS, 4, "Response")
    with pytest.raises(TypeError, match="ListGroupsResponse v4 needs error_code"):
        encode_entity(kind, {"groups": ()})
    with pytest.raises(TypeError, match="null where an array is needed"):
        encode_entity(kind, {"error_code": 0, "groups": None})


def test_a_long_message_of_an_error_is_cut() -> None:
    answer = {"error_code": 1, "error_message": "x" * 50_000, "node_id": -1, "host": "", "port": -1}
    found = decode_response(FIND_COORDINATOR, 2, memoryview(encode_response_body(FIND_COORDINATOR, 2, answer)))
    assert found.error_message == "x" * MESSAGE_MAX


def test_a_long_answer_is_packed_in_many_steps_and_a_few_pieces() -> None:
    kind = message_type(LIST_GROUPS, 4, "Response")
    groups = [{"group_id": f"g{number}", "protocol_type": "p", "group_state": "s"} for number in range(10_000)]
    pieces = Pieces()
    steps = sum(1 for _ in encode_in_steps(kind, {"error_code": 0, "groups": groups}, pieces))
    assert steps > 1_000
    assert 2 <= len(pieces.all()) <= 20


def test_items_that_are_made_while_they_are_packed_exist_one_at_a_time() -> None:
    kind, pieces = message_type(DESCRIBE_CONFIGS, 4, "Response"), Pieces()
    made: list[str] = []

    def make(name: str) -> Steps[Fields]:
        yield
        made.append(name)
        return described(name)

    names = [f"t{number}" for number in range(100)]
    left = [len(made) for _ in encode_in_steps(kind, {"results": MadeItems(names, make)}, pieces)]
    assert max(after - before for before, after in pairwise(left)) == 1
    packed = b"".join(pieces.all())
    assert packed == encode_entity(kind, {"results": [described(name) for name in names]})
    assert packed == encode_entity(kind, {"results": MadeItems(names, make)})


def described(name: str) -> Fields:
    entry = {"name": "k", "value": name, "read_only": False, "is_sensitive": False, "documentation": None}
    head = {"error_code": 0, "error_message": None, "resource_type": 2, "resource_name": name}
    return {**head, "configs": [{**entry, "synonyms": (), "config_type": 1, "config_source": 1}]}


def test_a_long_request_is_taken_apart_in_steps() -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": ()}
    assignments = [{"partition_index": number, "broker_ids": (1,)} for number in range(2_000)]
    kind = message_type(CREATE_TOPICS, 5, "Request")
    content = {"topics": [{**topic, "assignments": assignments}], "timeout": 1, "validate_only": False}
    entity = read_entity(kind, encode_entity(kind, content))
    assert sum(1 for _ in released(entity)) >= 1_000
    assert entity.topics == ()


def test_a_request_whose_structs_have_only_empty_arrays_is_taken_apart_in_steps() -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": (), "assignments": ()}
    kind = message_type(CREATE_TOPICS, 5, "Request")
    content = {"topics": [topic] * 2_000, "timeout": 1, "validate_only": False}
    entity = read_entity(kind, encode_entity(kind, content))
    assert sum(1 for _ in released(entity)) >= 200
    assert entity.topics == ()
