"""The names of failures, and the errors by which the protocol tells a client what to do next. Pure."""

from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.outcomes.error_names import ERROR_NAMES


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An error that the protocol uses as a step: the client continues, and nothing is broken.

    `apis` are those whose answers may have it.
    """

    error: str
    apis: tuple[str, ...]
    reason: str


EXPECTED_ERRORS: Final = (
    ExpectedError(
        "MEMBER_ID_REQUIRED",
        ("JoinGroup",),
        "A new member of a classic group first gets its member ID with this error, and joins with it (KIP-394).",
    ),
    ExpectedError(
        "REBALANCE_IN_PROGRESS",
        ("Heartbeat", "JoinGroup", "SyncGroup"),
        "The coordinator tells the members of a classic group with this error to join again.",
    ),
    ExpectedError(
        "UNSUPPORTED_VERSION",
        ("ApiVersions",),
        "A client that is newer than the broker gets the versions of the broker with this error (KIP-511).",
    ),
    ExpectedError(
        "FETCH_SESSION_ID_NOT_FOUND",
        ("Fetch",),
        "The broker has given the place of the session to another one; the client begins a new one (KIP-227).",
    ),
    ExpectedError(
        "INVALID_FETCH_SESSION_EPOCH",
        ("Fetch",),
        "A client that has not got an answer continues its session; the client begins a new one (KIP-227).",
    ),
    ExpectedError(
        "STALE_MEMBER_EPOCH",
        ("OffsetCommit", "OffsetFetch"),
        "The group has been assigned anew meanwhile; the member repeats the request with its new epoch (KIP-848).",
    ),
    ExpectedError(
        "UNKNOWN_SUBSCRIPTION_ID",
        ("PushTelemetry",),
        "The wanted metrics have changed; the client asks for them and pushes these (KIP-714).",
    ),
    ExpectedError(
        "cancelled",
        ("Fetch",),
        "A consumer has left while its Fetch waited for data.",
    ),
)
"""The errors that count as steps.

Others stay failures: a client that retries NOT_LEADER_OR_FOLLOWER, for example, lost time, and a leader moved.
"""


def name_of_code(error_code: Column) -> Column:
    """Return the name of an error code; `error N` for a code that Kafka does not have, null for an unknown one."""
    names = F.create_map(
        *(
            F.lit(each).cast("smallint") if isinstance(each, int) else F.lit(each)
            for each in chain.from_iterable(ERROR_NAMES.items())
        )
    )
    return F.coalesce(F.element_at(names, error_code), F.concat(F.lit("error "), error_code.cast("string")))


def error_name(error_code: Column, ending: Column) -> Column:
    """Return the name of a failure: that of its error code, else its ending; null without both."""
    return F.when(error_code != 0, name_of_code(error_code)).when(ending != "answered", ending)


def is_expected(api: Column, error: Column) -> Column:
    steps = ((error == each.error) & api.isin(*each.apis) for each in EXPECTED_ERRORS)
    return reduce(Column.__or__, steps)
