"""Frames that the benchmarks write by hand are those of the push protocol."""

from benchmarks.groups import push_frames
from benchmarks.groups.push_frames import Part
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    Broker,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherResponse,
    ThreadOwnership,
)


def test_registrations_and_answers_are_written_as_the_broker_reads_them() -> None:
    asked = RegisterConsumerRequest("g", "c", '{"t": 1}', True, "smallest", 6_000)
    assert push_frames.register("g", "c", "t", 6_000) == layouts.REGISTER_CONSUMER_REQUEST.write(asked)
    told = (PartitionOffset("t", "3", 17), PartitionOffset("u", "0", 0))
    parts = [Part("t", 3, 17), Part("u", 0, 0)]
    assert push_frames.answer(push_frames.PING, "c", parts) == layouts.PING_RESPONSE.write(PingResponse(0, "c", told))
    stopped = layouts.STOP_FETCHER_RESPONSE.write(StopFetcherResponse(0, "c", ()))
    assert push_frames.answer(push_frames.STOP_FETCHER, "c", []) == stopped
    started = layouts.START_FETCHER_RESPONSE.write(StartFetcherResponse(0, "c"))
    assert push_frames.answer(push_frames.START_FETCHER, "c") == started


def test_what_the_broker_writes_is_read() -> None:
    parts = (PartitionOffset("t", "1-3", 17), PartitionOffset("t", "0", -2))
    threads = (ThreadOwnership("c-0", parts[:1]), ThreadOwnership("c-1", parts[1:]))
    call = layouts.START_FETCHER_REQUEST.write(StartFetcherRequest("c", threads, (Broker(1, "k", 9092),)))[4:]
    assert push_frames.type_of(call) == push_frames.START_FETCHER
    assert push_frames.read_start(call) == [Part("t", 3, 17), Part("t", 0, -2)]
    assert (
        push_frames.read_registered(layouts.REGISTER_CONSUMER_RESPONSE.write(RegisterConsumerResponse(111))[4:]) == 111
    )
