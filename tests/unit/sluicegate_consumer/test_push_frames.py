"""The consumer's own codec of the push protocol, against that of the broker."""

import struct

import pytest

from kafka_bytes.push import layouts, messages
from kafka_bytes.push.partition_text import NO_LEADER
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire import push

BROKER = messages.Broker(1, "k1", 9092)
READ = (messages.PartitionOffset("t", "1-3", 7), messages.PartitionOffset("t", "4", -2))
START = layouts.START_FETCHER_REQUEST.write(
    messages.StartFetcherRequest("c", (messages.ThreadOwnership("c-1", READ),), (BROKER,))
)


def without_size(frame: bytes) -> memoryview:
    return memoryview(frame)[4:]


def test_the_broker_decodes_what_the_consumer_encodes() -> None:
    asked = push.Registration("g", "c", '{"t":1}', True, "smallest", 6_000)
    assert asked.request() == layouts.REGISTER_CONSUMER_REQUEST.write(messages.RegisterConsumerRequest(*asked))
    assert push.cluster_metadata_request("g") == layouts.CLUSTER_METADATA_REQUEST.write(
        messages.ClusterMetadataRequest("g")
    )
    told = [push.PartitionOffset("t", 3, 7), push.PartitionOffset("ü", 4, -1)]
    same = tuple(messages.PartitionOffset(each.topic, str(each.partition), each.offset) for each in told)
    assert push.ping_answer("c", told) == layouts.PING_RESPONSE.write(messages.PingResponse(0, "c", same))
    assert push.ping_answer("c", None) == layouts.PING_RESPONSE.write(messages.PingResponse(0, "c", None))
    assert push.stop_answer("c", []) == layouts.STOP_FETCHER_RESPONSE.write(messages.StopFetcherResponse(0, "c", ()))
    assert push.start_answer("c") == layouts.START_FETCHER_RESPONSE.write(messages.StartFetcherResponse(0, "c"))


def test_the_consumer_decodes_what_the_broker_encodes() -> None:
    metadata = layouts.CLUSTER_METADATA_RESPONSE.write(messages.ClusterMetadataResponse(0, 1, (BROKER,)))
    assert push.read_cluster_metadata(without_size(metadata)) == (0, 1, (messages.Broker(1, "k1", 9092),))
    registered = layouts.REGISTER_CONSUMER_RESPONSE.write(messages.RegisterConsumerResponse(16))
    assert push.read_registered(without_size(registered)) == 16
    ping = layouts.PING_REQUEST.write(messages.PingRequest("c", 2))
    assert push.read_call(without_size(ping)) == messages.PingRequest("c", 2)
    stop = layouts.STOP_FETCHER_REQUEST.write(messages.StopFetcherRequest("c"))
    assert push.read_call(without_size(stop)) == messages.StopFetcherRequest("c")
    parts = (push.PartitionOffset("t", 3, 7, leader=1), push.PartitionOffset("t", 4, -2, leader=NO_LEADER))
    found = push.read_call(without_size(START))
    assert found == push.StartFetcher("c", ((1, parts),), (messages.Broker(1, "k1", 9092),))


@pytest.mark.parametrize("length", range(len(START) - 4))
def test_a_frame_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        push.read_call(without_size(START)[:length])


@pytest.mark.parametrize(
    "wrong",
    [
        START[4:] + b"x",
        b"\x75\x39\x00\x01c",
        START[4:].replace(b"1-3", b"1:3"),
        START[4:].replace(b"\x00\x031-3", b"\x00\x0a2147483648"),
        START[4:].replace(b"\x00\x03c-1", struct.pack(">h", 5_002) + b"c-" + b"1" * 5_000),
    ],
)
def test_an_invalid_call_is_rejected(wrong: bytes) -> None:
    assert wrong != START[4:]
    with pytest.raises(ProtocolError):
        push.read_call(memoryview(wrong))
