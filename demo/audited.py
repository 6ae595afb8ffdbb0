"""Expectations of the demo's audit log after all brokers have stopped and all events have landed. Pure."""

from dataclasses import dataclass

from demo.checks import Expectations

COUNTED = (
    "SELECT (SELECT coalesce(sum(records), 0)::BIGINT FROM partition"
    " WHERE api_key = 0 AND topic = '{topic}' AND error_code = 0) AS produced,"
    " (SELECT count(*) FROM connection WHERE event = 'accepted') AS connections,"
    " (SELECT count(*) FROM connection WHERE event = 'limited') AS limited"
)
"""SQL that selects one row with the fields of `Counted`."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of produced messages, accepted connections and limited connections, over all brokers."""

    produced: int
    connections: int
    limited: int


@dataclass(frozen=True, slots=True)
class Audited:
    """Result of the demo's audit: exit code and output of `sluicegate audit check`, and the counts of the log."""

    check_code: int
    check_output: str
    counted: Counted


def expect_complete(audited: Audited, acknowledged: int, expectations: Expectations) -> None:
    expectations.expect(audited.check_code == 0, "the audit log has holes, duplicates or gaps, see above")
    produced = audited.counted.produced
    expectations.expect(
        produced >= acknowledged,
        f"{acknowledged} messages were acknowledged, but the audit log has only {produced} of them",
    )
