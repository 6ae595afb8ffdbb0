"""The group of a request, from its first bytes."""

from typing import Any

import pytest

from broker_runtime.observers.audit_log.changes.group_ids import group_id_of
from broker_runtime.wire import versions
from broker_runtime.wire.messages import encode_request_body

OFFSETS: dict[str, Any] = {"topics": [], "require_stable": False}
PRODUCER = {"producer_id": 2**40, "producer_epoch": 7}
COMMITTED: dict[str, Any] = {
    "group_id": "one",
    "generation_id": -1,
    "member_id": "",
    "group_instance_id": None,
    "topics": [],
}


@pytest.mark.parametrize(
    ("key", "version", "content", "group"),
    [
        (versions.HEARTBEAT, 0, {"group_id": "readers", "generation_id": 1, "member_id": "m"}, "readers"),
        (
            versions.HEARTBEAT,
            4,
            {"group_id": "g" * 200, "generation_id": 1, "member_id": "m", "group_instance_id": None},
            "g" * 200,
        ),
        (versions.OFFSET_FETCH, 7, {"group_id": "readers", **OFFSETS}, "readers"),
        (versions.OFFSET_FETCH, 8, {"groups": [{"group_id": "one", "topics": None}], "require_stable": False}, "one"),
        (
            versions.OFFSET_FETCH,
            8,
            {"groups": [{"group_id": name, "topics": None} for name in ("one", "two")], "require_stable": False},
            None,
        ),
        *(
            (versions.ADD_OFFSETS_TO_TXN, version, {"transactional_id": "t", **PRODUCER, "group_id": "one"}, "one")
            for version in (2, 4)
        ),
        *(
            (versions.TXN_OFFSET_COMMIT, version, {"transactional_id": "t", **PRODUCER, **COMMITTED}, "one")
            for version in (2, 5)
        ),
    ],
)
def test_the_group_is_read(key: int, version: int, content: dict[str, Any], group: str | None) -> None:
    body = memoryview(b"head" + encode_request_body(key, version, content))
    flexible = version >= versions.FORMATS[key].flexible_from
    assert group_id_of(key, version, flexible, body, 4) == group


def test_a_request_that_ends_too_early_has_no_group() -> None:
    assert group_id_of(versions.HEARTBEAT, 0, False, memoryview(b"\x00\x05ab"), 0) is None
