"""The coordinator's connection authenticates again, and keeps answers back meanwhile. Over a simulated connection."""

import asyncio
from struct import pack, unpack_from
from typing import Any

import pytest

from kafka_bytes.frames import SIZE, frame
from kafka_bytes.own_keys import PING
from sluicegate_consumer import AuthenticationError, SaslPassword, Settings
from sluicegate_consumer.connections.coordinator import CoordinatorConnection

pytestmark = pytest.mark.virtual_time

LIFETIME_MS = 10_000
CALL = pack(">h", PING) + b"call"


class Far:
    """The broker's side, as a StreamWriter of the connection."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.log: list[str] = []
        self.silent = self.refuses = False

    def write(self, data: bytes) -> None:
        key, _, correlation_id = unpack_from(">hhi", data, SIZE.size)
        self.log.append({17: "handshake", 36: "authenticate"}.get(key, data.decode(errors="replace")))
        if key == 17:
            self.reader.feed_data(frame(pack(">ihi", correlation_id, 0, 0)))
        elif key == 36 and not self.silent:
            code = 58 if self.refuses else 0
            self.reader.feed_data(frame(pack(">ihhiq", correlation_id, code, -1, 0, LIFETIME_MS)))

    def close(self) -> None:
        self.reader.feed_eof()

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("10.0.0.1", 9092)}[name]


async def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[CoordinatorConnection, Far]:
    far = Far()

    async def connect(*_: object, **__: object) -> tuple[asyncio.StreamReader, Far]:
        return far.reader, far

    monkeypatch.setattr(asyncio, "open_connection", connect)
    settings = Settings(sasl=SaslPassword("PLAIN", "anna", "hidden"))
    return await CoordinatorConnection.open("k1", 9092, settings), far


async def test_a_long_connection_authenticates_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, far = await opened(monkeypatch)
    assert far.log == ["handshake", "authenticate"]
    receiving = asyncio.create_task(connection.receive())
    await asyncio.sleep(LIFETIME_MS / 1000 * 2)
    assert far.log == ["handshake", "authenticate"] * 3
    far.reader.feed_data(frame(CALL))
    assert bytes(await receiving) == CALL
    connection.close()


async def test_answers_wait_for_the_end_of_the_authentication_and_calls_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, far = await opened(monkeypatch)
    receiving = asyncio.create_task(connection.receive())
    far.silent = True
    far.log.clear()
    await asyncio.sleep(LIFETIME_MS / 1000)
    far.reader.feed_data(frame(CALL))
    assert bytes(await receiving) == CALL
    connection.send(b"answer to the call")
    assert far.log == ["handshake", "authenticate"]
    receiving = asyncio.create_task(connection.receive())
    far.reader.feed_data(frame(pack(">ihhiq", 4, 0, -1, 0, LIFETIME_MS)))
    await asyncio.sleep(0.1)
    assert far.log == ["handshake", "authenticate", "answer to the call"]
    receiving.cancel()
    connection.close()


async def test_a_refused_authentication_ends_the_connection_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, far = await opened(monkeypatch)
    far.refuses = True
    with pytest.raises(AuthenticationError, match="refused the credentials"):
        await connection.receive()


async def test_an_authentication_without_an_answer_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, far = await opened(monkeypatch)
    far.silent = True
    with pytest.raises(TimeoutError, match="has not authenticated"):
        await connection.receive()
