"""Requests and answers over a simulated connection."""

import asyncio
from typing import Any, cast

import pytest

from kafka_bytes.frames import frame
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.connection import RequestConnection
from sluicegate_consumer.errors import ProtocolError
from sluicegate_consumer.wire.fields import INT32
from sluicegate_consumer.wire.kafka import Request

pytestmark = pytest.mark.virtual_time

REQUEST = Request(3, 7, b"body")


class Writer:
    """The part of a StreamWriter that a connection uses."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("10.0.0.1", 9092)}[name]


class Played:
    """A connection, and the actions of its other end."""

    def __init__(self, **settings: Any) -> None:
        self.reader = asyncio.StreamReader()
        self.writer = Writer()
        self.connection = RequestConnection(self.reader, cast(Any, self.writer), Settings(**settings))

    def ask(self, timeout_s: float = 10.0) -> "asyncio.Task[memoryview]":
        return asyncio.create_task(self.connection.ask(REQUEST, timeout_s))

    def answer(self, correlation_id: int, body: bytes = b"") -> None:
        self.reader.feed_data(frame(INT32.pack(correlation_id), body))


async def test_each_request_gets_its_answer() -> None:
    played = Played()
    asked = [played.ask(), played.ask()]
    await asyncio.sleep(0)
    assert played.writer.written[:30] == REQUEST.framed(1, "sluicegate-consumer")[:30]
    assert played.connection.owed == 2
    played.answer(1, b"one")
    played.answer(2, b"two")
    assert [bytes(await each) for each in asked] == [b"one", b"two"]
    assert played.connection.owed == 0


async def test_an_answer_to_a_cancelled_request_is_discarded() -> None:
    played = Played()
    asked = played.ask()
    await asyncio.sleep(0)
    assert not played.connection.forsaken
    asked.cancel()
    await asyncio.wait([asked])
    assert played.connection.forsaken
    played.answer(1)
    again = played.ask()
    await asyncio.sleep(0)
    played.answer(2, b"two")
    assert bytes(await again) == b"two"


async def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    played = Played()
    with pytest.raises(TimeoutError):
        await played.ask(5.0)
    assert played.connection.ended
    assert played.writer.closed
    with pytest.raises(ConnectionResetError):
        await played.ask()


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (frame(INT32.pack(9)), ProtocolError),
        (frame(b"\x00"), ProtocolError),
        (INT32.pack(-1), ProtocolError),
        (INT32.pack(101), ProtocolError),
        (INT32.pack(50) + b"cut", ConnectionResetError),
        (b"", ConnectionResetError),
    ],
)
async def test_an_invalid_answer_ends_the_connection_for_all_requests(raw: bytes, error: type[Exception]) -> None:
    played = Played(frame_bytes_max=100)
    asked = [played.ask(), played.ask()]
    await asyncio.sleep(0)
    played.reader.feed_data(raw)
    played.reader.feed_eof()
    for each in asked:
        with pytest.raises(error):
            await each
    assert played.connection.ended


@pytest.mark.parametrize("error", [OverflowError("port"), UnicodeError("label too long"), ValueError("null character")])
async def test_an_invalid_address_fails_like_an_unreachable_one(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors of connecting to port 70000, to a label of 64 characters, and to one with a null character."""

    async def connect(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(asyncio, "open_connection", connect)
    with pytest.raises(OSError, match="cannot be reached"):
        await RequestConnection.open("k1", 70_000, Settings())
