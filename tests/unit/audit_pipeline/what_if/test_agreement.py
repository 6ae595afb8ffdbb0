"""A decision of a replay is that of the log: its outcome, time and limit. Names of quotas are not compared."""

import pytest

from audit_pipeline.what_if.agreement import is_equal
from audit_pipeline.what_if.attempts import Attempt, Course, Limit, Outcome, RecordedEvent

RATE = "listener.name.clients.max.connection.creation.rate"


def attempt(replayed: Course) -> Attempt:
    """A connection that a named limit has refused."""
    event = RecordedEvent(
        seq=1, event="refused", listener="CLIENTS", client_ip="10.0.0.1", client_port=1, connection_id=None,
        client_id=None, reason=RATE, limit_quota="shop/storm", limit_key=RATE, limit_entity=None, held_us=None,
        arrived_us=1_000, decided_us=1_000, wall_us=1_000,
    )  # fmt: skip
    found = Attempt(event)
    found.recorded = Course(Outcome.REJECTED, 1_000, Limit(RATE, None, "shop/storm"))
    found.replayed = replayed
    return found


@pytest.mark.parametrize(
    ("replayed", "is_same"),
    [
        (Course(Outcome.REJECTED, 1_000, Limit(RATE)), True),
        (Course(Outcome.REJECTED, 1_000, Limit("max.connections")), False),
        (Course(Outcome.REJECTED, 1_000, Limit(RATE, "ip=10.0.0.1")), False),
        (Course(Outcome.REJECTED, 1_000), False),
        (Course(Outcome.REJECTED, 2_000, Limit(RATE)), False),
        (Course(Outcome.ACCEPTED, 1_000, Limit(RATE)), False),
    ],
)
def test_the_name_of_the_quota_is_no_part_of_a_decision(replayed: Course, is_same: bool) -> None:
    assert is_equal(attempt(replayed)) is is_same
