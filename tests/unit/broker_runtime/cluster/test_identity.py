"""What an incarnation id tells, and that no two are the same."""

from uuid import RFC_4122

from broker_runtime.cluster.identity import new_incarnation

BEGAN_MS = 1_645_557_742_123


def test_an_incarnation_begins_with_its_time_as_rfc_9562_has_it() -> None:
    incarnation = new_incarnation(BEGAN_MS)
    assert incarnation.int >> 80 == BEGAN_MS
    assert (incarnation.version, incarnation.variant) == (7, RFC_4122)


def test_two_of_one_moment_differ() -> None:
    made = {new_incarnation(BEGAN_MS) for _ in range(100)}
    assert len(made) == 100


def test_a_clock_from_before_the_epoch_makes_an_id_all_the_same() -> None:
    assert new_incarnation(-1).version == 7
