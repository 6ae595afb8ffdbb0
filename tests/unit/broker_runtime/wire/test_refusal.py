"""A message with its own error code contains nothing but an error."""

import pytest

from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.refusal import refusal
from broker_runtime.wire.versions import DESCRIBE_CLIENT_QUOTAS, FETCH, METADATA, OFFSET_FETCH, PRODUCE
from tests.support.requests.random_messages import SERVED

INVALID_REQUEST = 42


def answers() -> list[tuple[str, int, int]]:
    return [(api.name, key, version) for key, api in SERVED.items() for version in range(*api.versions)]


@pytest.mark.parametrize(("name", "key", "version"), answers(), ids=str)
def test_a_refusal_is_a_message_that_clients_can_read(name: str, key: int, version: int) -> None:
    body = refusal(key, version, INVALID_REQUEST, "too many")
    if body is not None:
        found = decode_response(key, version, memoryview(body))
        assert found.error_code == INVALID_REQUEST, name
        assert getattr(found, "error_message", "too many") == "too many"


@pytest.mark.parametrize(
    ("key", "version", "has_place"),
    [
        (FETCH, 4, False),
        (FETCH, 12, True),
        (PRODUCE, 9, False),
        (METADATA, 12, False),
        (METADATA, 13, True),
        (OFFSET_FETCH, 7, True),
        (DESCRIBE_CLIENT_QUOTAS, 1, True),
    ],
)
def test_which_messages_have_a_place_for_it(key: int, version: int, has_place: bool) -> None:
    assert (refusal(key, version, INVALID_REQUEST, "") is not None) is has_place
