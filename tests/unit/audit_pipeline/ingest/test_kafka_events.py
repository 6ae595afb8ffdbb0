"""A topic may be slow: its queue is bounded, only silence is a failure, and a waiting publisher can be stopped."""

import logging
from threading import Event

import pytest

from audit_pipeline.errors import StoppedError
from audit_pipeline.ingest.audit_topic import EventRecord, TopicPlace
from audit_pipeline.ingest.kafka_events import UNDER_WAY, KafkaEvents, TopicError, TopicReplacedError
from tests.support.fakes.slow_producer import SlowTopic

PLACE = TopicPlace("b:1", "audit")


def events(topic: SlowTopic, *, gives_up: bool = True, stopped: Event | None = None) -> KafkaEvents:
    return KafkaEvents(
        PLACE,
        stopped,
        timeout_s=30,
        gives_up=gives_up,
        open_producer=topic.producer,
        clock=topic.clock.monotonic,
    )


def records(count: int, first: int = 0) -> list[EventRecord]:
    return [EventRecord(b"boot", b"%d" % number, 1) for number in range(first, first + count)]


def values(count: int) -> list[bytes]:
    return [record.value for record in records(count)]


def test_a_topic_that_takes_less_than_waits_for_it_gets_everything_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    topic = SlowTopic(per_s=200)
    put = events(topic)
    put.put(records(40_000))
    assert put.acknowledged >= 40_000 - UNDER_WAY
    put.flush()
    assert topic.clock.monotonic() - 1000 > 190, "each of the last waited for longer than the timeout"
    assert topic.values == values(40_000)
    assert (put.acknowledged, topic.most_under_way, topic.opened) == (40_000, UNDER_WAY, 1)
    assert len(caplog.messages) in range(15, 20), "progress is told every ten seconds"
    assert {message.split("; ")[0].split(", ")[1] for message in caplog.messages} == {"200 a second"}


def test_a_topic_that_acknowledges_nothing_for_the_timeout_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    topic = SlowTopic(per_s=1)
    put = events(topic)
    put.put(records(10))
    put.flush()
    topic.clock.advance(1000)
    topic.per_s = 0
    began_s = topic.clock.monotonic()
    put.put(records(10, first=10))
    with pytest.raises(TopicError, match="b:1 has acknowledged none of 10 records for 30 s"):
        put.flush()
    assert topic.clock.monotonic() - began_s == pytest.approx(30, abs=0.3), "that nothing was put is no silence"
    put.flush()
    assert (put.acknowledged, caplog.messages) == (10, [])


def test_a_publisher_without_a_timeout_logs_its_wait_and_sends_nothing_twice(caplog: pytest.LogCaptureFixture) -> None:
    topic = SlowTopic(per_s=0)
    stopped = Event()
    put = events(topic, gives_up=False, stopped=stopped)
    put.put(records(10))
    began_s = topic.clock.monotonic()

    def seconds() -> float:
        passed = topic.clock.monotonic() - began_s
        topic.per_s = 10 if passed > 100 else 0
        return topic.clock.monotonic()

    put._clock = seconds  # the topic is there again after a while
    put.flush()
    assert [message.split(": ")[0] for message in caplog.messages] == [
        "b:1 has acknowledged none of 10 records for 30 s"
    ] * 3
    assert (topic.values, topic.opened) == (values(10), 1)


@pytest.mark.parametrize("count", [10, UNDER_WAY + 1])
def test_a_waiting_publisher_stops_on_request(count: int) -> None:
    topic = SlowTopic(per_s=0.5)
    stopped = Event()
    put = events(topic, stopped=stopped)
    stopped.set()
    began_s = topic.clock.monotonic()
    with pytest.raises(StoppedError, match=r"stopped while \d+ records waited for b:1"):
        put_all(put, count)
    assert topic.clock.monotonic() - began_s < 2.5


def test_a_stopping_publisher_finishes_records_that_are_nearly_done() -> None:
    topic = SlowTopic(per_s=100)
    stopped = Event()
    stopped.set()
    put_all(events(topic, stopped=stopped), 100)
    assert topic.values == values(100)


def put_all(put: KafkaEvents, count: int) -> None:
    put.put(records(count))
    put.flush()


def test_behind_a_record_that_is_refused_nothing_counts_as_there(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = SlowTopic(per_s=100, refuses=b"7")
    put = events(topic)
    put.put(records(20))
    with pytest.raises(TopicError, match="audit at b:1 does not accept events: Broker: Message size too large"):
        put.flush()
    assert put.acknowledged == 7
    monkeypatch.setattr(KafkaEvents, "_require_the_same_topic", lambda _: None)
    topic.refuses = None
    put.put(records(13, first=7))
    put.flush()
    assert (put.acknowledged, topic.values) == (20, values(20))


def test_a_topic_that_was_made_anew_is_noticed_by_its_offsets() -> None:
    topic = SlowTopic(per_s=100)
    put = events(topic)
    put_all(put, 10)
    topic.first_offset = -topic.values.__len__()
    put.put(records(1))
    with pytest.raises(TopicReplacedError, match="audit at b:1 was deleted and created again during the writing"):
        put.flush()
