"""A message is not repeated until it changes."""

import pytest

from sluicegate_operator.engine.changed_messages import ChangedMessages


def test_a_sentence_is_news_once_and_then_how_long_it_has_been_so() -> None:
    said: ChangedMessages[str] = ChangedMessages()
    assert said.note("shop", "waits", 1.0) is None
    assert said.note("shop", "waits", 5.0) == 4.0
    assert said.note("other", "waits", 5.0) is None
    assert said.note("shop", "is blocked", 6.0) is None
    said.forget("shop")
    assert said.note("shop", "is blocked", 7.0) is None


def test_the_least_recently_noted_subject_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_operator.engine.changed_messages.SUBJECTS_MAX", 2)
    said: ChangedMessages[str] = ChangedMessages()
    for subject in ("one", "two", "one", "three"):
        said.note(subject, "waits", 1.0)
    assert said.note("one", "waits", 2.0) == 1.0
    assert said.note("two", "waits", 2.0) is None
