from typing import Any

from demo.checks import Expectations
from demo.takeover import Takeover, expect_survived, sentences, taken_over

MEASURED: dict[str, Any] = {
    "acknowledged": 6,
    "missing": 0,
    "repeated": 1,
    "failures": [],
    "starts": [(1.0, "a", 1), (1.1, "b", 1), (12.0, "a", 1), (12.1, "b", 1)],
    # The last far record comes from the first start, and shows nothing about the second.
    "reads": [(2.0, "near-0"), (2.0, "far-0"), (9.9, "near-0"), (10.2, "far-0"), (12.5, "near-0"), (13.0, "far-0")],
}


def found(**other: Any) -> Takeover:
    return taken_over(MEASURED | other, (1, 2), 2, killed_s=10.0)


def missed(takeover: Takeover) -> list[str]:
    expectations = Expectations()
    expect_survived(takeover, 2, expectations)
    return expectations.missed


def test_restarted_consumers_that_read_all_messages_pass() -> None:
    assert missed(found()) == []
    assert (found().reading_again_s, found().started_again) == (3.0, 2)
    assert found().silence_s == 10.2 - 2.0
    first, _ = sentences(found())
    assert "broker 2 started 2 consumers again. They had new messages of all 2 partitions 3.00 s" in first


def test_missing_starts_and_reads_are_reported() -> None:
    assert missed(found(starts=MEASURED["starts"][:3])) == [
        "2 of 2 consumers were started before their coordinator was killed, and 1 after it"
    ]
    one = found(reads=MEASURED["reads"][:5])
    assert one.reading_again_s is None
    assert missed(one) == ["not all 2 partitions were read again within 15 s after the coordinator was killed"]
    late = found(reads=[*MEASURED["reads"][:5], (26.0, "far-0")])
    assert missed(late) == missed(one)


def test_a_partition_that_was_never_read_is_one_that_was_not_read_again() -> None:
    assert found(reads=[(12.5, "near-0")]).reading_again_s is None


def test_unread_messages_and_a_failed_producer_are_reported() -> None:
    assert missed(found(missing=3, failures=["timed out"])) == [
        "3 messages were acknowledged and not read after the coordinator was killed",
        "the producer of parcels failed: ('timed out',)",
    ]


def test_consumers_that_were_never_started_say_so() -> None:
    nothing = found(starts=[], reads=[])
    assert nothing.silence_s is None
    assert "never after the kill" in sentences(nothing)[0]
    assert len(missed(nothing)) == 2
