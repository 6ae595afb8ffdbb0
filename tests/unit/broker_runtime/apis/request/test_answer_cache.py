"""Metadata about all topics is encoded once for each version and listener, until the metadata changes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_runtime.apis.request.answer_cache import AnswerCache, Body
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.topics.metadata import API
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import Reply
from tests.support.requests.calls import a_call, settled_at_once
from tests.support.worlds.controller import Metadata


class Broker:
    def __init__(self) -> None:
        self.metadata = Metadata()
        self.metadata.broker(1)
        self.kept = AnswerCache()

    def ask(self, version: int = 12, image: MetadataImage | None = None, **asked: bool) -> tuple[Call, bytes]:
        call = a_call(API, version)
        context: Any = SimpleNamespace(
            image=image or self.metadata.image, cluster_id="c", all_topics=self.kept, settings=None
        )
        (frame,) = cast("Any", settled_at_once(call, API.handle(SimpleNamespace(topics=None, **asked), call, context)))
        return call, frame

    def topics(self, **how: Any) -> list[str]:
        _, frame = self.ask(**how)
        return [topic.name for topic in decode_response(API.key, 12, memoryview(frame)[9:]).topics]


def test_the_same_question_has_the_same_answer_until_the_metadata_changes() -> None:
    broker = Broker()
    broker.metadata.topic("a", (1,))
    first = broker.topics()
    assert first == broker.topics() == ["a"]
    assert len(broker.kept._bodies) == 1
    broker.metadata.topic("b", (1,))
    assert broker.topics() == ["a", "b"]
    assert len(broker.kept._bodies) == 1


def test_answers_with_and_without_authorized_operations_are_kept_apart() -> None:
    broker = Broker()
    broker.metadata.topic("a", (1,))
    ways: list[dict[str, Any]] = [
        {"include_topic_authorized_operations": of_topics, "include_cluster_authorized_operations": of_cluster}
        for of_topics in (False, True)
        for of_cluster in (False, True)
    ]
    answers = [broker.ask(8, **asked)[1] for asked in ways]
    assert len(set(answers)) == len(broker.kept._bodies) == 4
    assert [broker.ask(8, **asked)[1] for asked in ways] == answers
    read = [decode_response(API.key, 8, memoryview(frame)[8:]) for frame in answers]
    assert [each.topics[0].topic_authorized_operations for each in read] == [-(2**31)] * 2 + [3576] * 2
    assert [each.cluster_authorized_operations for each in read] == [-(2**31), 8096] * 2


def test_a_full_cache_still_serves_its_entries_and_is_cleared_by_a_further_one() -> None:
    broker = Broker()
    kept, *_ = [broker.ask(version)[1] for version in range(8)]
    assert broker.ask(0)[1] == kept
    assert len(broker.kept._bodies) == 8
    broker.ask(8)
    assert len(broker.kept._bodies) == 1


def test_images_with_equal_offsets_have_separate_cached_answers() -> None:
    one, other = Broker(), Broker()
    one.metadata.topic("a", (1,))
    other.metadata.topic("b", (1,))
    assert one.metadata.image.offset == other.metadata.image.offset
    assert one.topics() == ["a"]
    assert one.topics(image=other.metadata.image) == ["b"]


def test_versions_are_told_apart_and_an_error_is_noted_each_time() -> None:
    broker = Broker()
    broker.metadata.broker(2, fenced=True)
    broker.metadata.topic("a", (2,))
    codes = {broker.ask(version)[0].error for version in (1, 12, 1, 12)}
    assert len(codes) == 1
    assert 0 not in codes
    assert broker.ask(1)[1] != broker.ask(12)[1]


def test_calls_that_wait_for_an_answer_that_fails_are_not_told_that_it_is_too_large() -> None:
    def answer() -> Steps[Body]:
        yield
        raise ValueError("a mistake")

    kept, image = AnswerCache(), MetadataImage()
    first, second = [cast("Steps[Reply]", kept.reply(a_call(API, 12), image, answer)) for _ in range(2)]
    next(first)
    with pytest.raises(ValueError, match="a mistake"):
        next(first)
    with pytest.raises(RuntimeError, match="could not be encoded"):
        next(second)
