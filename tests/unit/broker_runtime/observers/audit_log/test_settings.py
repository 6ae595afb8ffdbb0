"""The settings, and the sentence for an invalid one."""

import pytest

from broker_runtime.observers.audit_log.settings import (
    KEYS,
    AuditConfigError,
    AuditSettings,
    Level,
    read_settings,
    with_key_of_file,
)


def test_the_defaults_of_the_keys_are_those_of_the_settings() -> None:
    assert read_settings({}) == AuditSettings()


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("level", "all", "must be one of off, connections, rollup, full, not 'all'"),
        ("queue.full", "block", "must be one of permit, reject"),
        ("queue.bytes", "0", "must be a whole number above 0"),
        ("flush.ms", "soon", "must be a whole number above 0, not 'soon'"),
        ("hash.key", "short", "must have 16 to 64 bytes, this one has 5"),
        ("spool.bytes", "1000", "must be at least twice segment.bytes"),
        ("colour", "red", "has no key colour; it has audit.topic, changes.chars"),
    ],
)
def test_a_value_that_makes_no_sense_is_told_with_what_to_do(key: str, value: str, sentence: str) -> None:
    with pytest.raises(AuditConfigError, match=sentence.replace(".", r"\.")):
        read_settings({key: value})


def test_values_are_read() -> None:
    settings = read_settings(
        {
            "level": "rollup",
            "queue.full": "reject",
            "flush.ms": "50",
            "exclude.topics": "a, b*,",
            "exclude.principals": "User:operator",
            "hash.key": "0123456789abcdef",
        }
    )
    assert (settings.level, settings.rejects, settings.writer.flush_s) == (Level.ROLLUP, True, 0.05)
    assert settings.excluded_topics == ("a", "b*")
    assert settings.clients.excluded_principals == {"User:operator"}
    assert settings.clients.hash_key == b"0123456789abcdef"


def test_the_audit_topic_is_left_out() -> None:
    assert read_settings({"audit.topic": "audit"}).excluded_topics == ("audit",)
    assert read_settings({"audit.topic": "audit", "exclude.topics": "a"}).excluded_topics == ("a", "audit")


def test_every_key_has_a_description() -> None:
    assert all(meaning.endswith(".") for _, _, meaning in KEYS.values())


def test_the_key_may_stand_in_a_file() -> None:
    files = {"key": "0123456789abcdef\n", "empty": "\n"}
    given = with_key_of_file({"hash.key.file": "key"}, files.__getitem__)
    assert read_settings(given).clients.hash_key == b"0123456789abcdef"
    assert with_key_of_file({"level": "full"}, files.__getitem__) == {"level": "full"}
    for bad, says in (
        ({"hash.key.file": "empty"}, "is empty"),
        ({"hash.key.file": "key", "hash.key": "x"}, "not both"),
    ):
        with pytest.raises(AuditConfigError, match=says):
            with_key_of_file(bad, files.__getitem__)
