"""The number of clients that may wait in the kernel: the listener's accepts of a second, with a minimum."""

import pytest

from connection_limits.backlog import LONGEST, backlog
from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import UNLIMITED, QuotaSettings

IP = "10.0.0.1"


@pytest.mark.parametrize(
    ("rate", "full", "expected"),
    [
        (UNLIMITED, False, LONGEST),
        (1_000, False, 1_000),
        (20, False, 50),
        (0, False, 50),
        (UNLIMITED, True, 50),
        (1_000, True, 50),
    ],
)
def test_a_queue_that_is_served_within_a_second(rate: int, *, full: bool, expected: int) -> None:
    assert backlog(50, rate, full=full) == expected


def test_what_is_configured_is_the_least() -> None:
    assert backlog(5_000, 100, full=False) == 5_000


def test_the_lower_rate_of_listener_and_broker_counts_and_the_protected_listener_has_its_own() -> None:
    settings = QuotaSettings(
        max_connection_creation_rate=300,
        listener_max_connection_creation_rate={"EXTERNAL": 200, "ADMIN": 400},
        inter_broker_listener="REPLICATION",
    )
    quotas = ConnectionQuotas(settings, 0)
    for name in ("EXTERNAL", "ADMIN", "REPLICATION"):
        quotas.add_listener(name, 0)
    assert quotas.backlog("EXTERNAL", 50) == 200
    assert quotas.backlog("ADMIN", 50) == 300
    assert quotas.backlog("REPLICATION", 50) == LONGEST
    quotas.update(QuotaSettings(inter_broker_listener="REPLICATION"), 0)
    assert quotas.backlog("EXTERNAL", 50) == LONGEST


def test_a_listener_without_a_free_slot_has_the_short_queue_until_there_is_one() -> None:
    quotas = ConnectionQuotas(QuotaSettings(max_connections=1), 0)
    quotas.add_listener("EXTERNAL", 0)
    assert quotas.backlog("EXTERNAL", 50) == LONGEST
    quotas.on_accepted("EXTERNAL", IP, 0)
    assert quotas.backlog("EXTERNAL", 50) == 50
    quotas.on_closed("EXTERNAL", IP, 0)
    assert quotas.backlog("EXTERNAL", 50) == LONGEST
