import pytest

from sluicegate_operator.cli.storms.storm_targets import (
    MAX_SOURCES,
    StormInputError,
    check_target_allowed,
    parse_sources,
    parse_target,
)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:9094", ("127.0.0.1", 9094)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:9094", ("::1", 9094)),
    ],
)
def test_target_is_host_and_port(text: str, target: tuple[str, int]) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:", ":9094", "127.0.0.1:0", "127.0.0.1:65536", "h:port"])
def test_target_without_host_or_port_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(StormInputError, match="write HOST:PORT"):
        parse_target(text)


def test_a_range_has_both_ends_and_lists_add_up() -> None:
    assert parse_sources("127.0.1.1-127.0.1.3, 127.0.2.1") == ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.2.1")


def test_a_range_crosses_octets() -> None:
    assert parse_sources("127.0.1.255-127.0.2.0") == ("127.0.1.255", "127.0.2.0")


def test_an_address_named_twice_counts_once() -> None:
    assert parse_sources("127.0.1.1,127.0.1.1-127.0.1.2") == ("127.0.1.1", "127.0.1.2")


def test_no_sources_leave_the_choice_to_the_system() -> None:
    assert parse_sources("") == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("127.0.1.8-127.0.1.1", "ends before it begins"),
        ("127.0.1.1-::1", "ends before it begins"),
        ("localhost", "write addresses"),
        ("127.0.0.0-127.255.255.255", f"more than {MAX_SOURCES}"),
    ],
)
def test_sources_that_make_no_sense_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(StormInputError, match=sentence):
        parse_sources(text)


def test_loopback_needs_no_leave() -> None:
    check_target_allowed(["127.0.0.1", "::1", "127.9.9.9"], "localhost", owned=False)


def test_other_targets_need_an_explicit_leave() -> None:
    with pytest.raises(StormInputError, match=r"10\.0\.0\.7 is not a loopback address.*--yes-i-own-this-target"):
        check_target_allowed(["127.0.0.1", "10.0.0.7"], "broker.example", owned=False)
    check_target_allowed(["10.0.0.7"], "broker.example", owned=True)
