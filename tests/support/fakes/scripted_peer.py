"""An in-memory broker for tests of the admin client: bytes in, scripted bytes out, no socket and no clock.

    peer = ScriptedPeer()
    peer.answer(DescribeClusterResponse(...))
    async with AdminClient([("b", 1)], connect=peer.connect) as admin: ...

Answers are found by API key. Without a script for a key the peer stays silent, as a stuck broker would.
"""

import asyncio
import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i16, i32Timedelta
from kio.static.protocol import ResponsePayload

API_VERSIONS = 18
SERVED = {3: 12, 18: 3, 19: 7, 20: 6, 32: 4, 37: 3, 44: 1, 48: 1, 49: 1, 60: 1}
"""Default newest version of each served API, by API key; the oldest is always 0."""

NO_THROTTLE = i32Timedelta.parse(i32Timedelta.min * 0)


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """One request of the client; `frame` has no size prefix."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes


Answer = Callable[[PeerRequest], bytes | None]
"""Request -> the whole reply with its size prefix, or None for silence."""


def encode(reply: ResponsePayload) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(reply))(buffer, reply)
    return buffer.getvalue()


def framed(correlation_id: int, rest: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(rest), correlation_id) + rest


def versions(served: Mapping[int, int]) -> ApiVersionsResponse:
    keys = tuple(
        ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(newest)) for key, newest in served.items()
    )
    return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=NO_THROTTLE)


@dataclass
class ScriptedPeer:
    """A peer that gives scripted answers.

    `chunk_bytes` cuts what it sends into pieces; `refuse` fails every connection attempt.
    """

    refuse: bool = False
    chunk_bytes: int | None = None
    requests: list[PeerRequest] = field(default_factory=list)
    connections: list["PeerTransport"] = field(default_factory=list)
    attempts: int = 0
    _answers: dict[int, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answer(versions(SERVED))

    def answer(self, reply: ResponsePayload) -> None:
        """From now on, answer every request of its API with `reply`."""
        header = b"" if reply.__api_key__ == API_VERSIONS or not reply.__flexible__ else b"\x00"
        body = header + encode(reply)
        self.script(reply.__api_key__, lambda request: framed(request.correlation_id, body))

    def script(self, api_key: int, answer: Answer) -> None:
        self._answers[api_key] = answer

    async def connect(self, address: tuple[str, int], factory: Callable[[], asyncio.Protocol]) -> object:
        self.attempts += 1
        if self.refuse:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = factory()
        transport = PeerTransport(self, protocol)
        self.connections.append(transport)
        protocol.connection_made(transport)
        return transport

    def take(self, transport: "PeerTransport", frame: bytes) -> None:
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 0)
        request = PeerRequest(api_key, version, correlation_id, frame)
        self.requests.append(request)
        answer = self.answer_to(request)
        if answer is not None:
            transport.send(answer)

    def answer_to(self, request: PeerRequest) -> bytes | None:
        script = self._answers.get(request.api_key)
        return script(request) if script is not None else None


class PeerTransport(asyncio.Transport):
    """The client's end of the connection; `send` and `hang_up` are the peer's actions."""

    def __init__(self, peer: ScriptedPeer, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._peer = peer
        self._protocol = protocol
        self._received = bytearray()
        self.closed = False
        self.lost = asyncio.Event()

    def write(self, data: "bytes | bytearray | memoryview") -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._peer.take(self, frame)

    def send(self, data: bytes) -> None:
        """Deliver data in the next iterations of the loop, as from a socket."""
        step = self._peer.chunk_bytes or max(1, len(data))
        for start in range(0, len(data), step):
            asyncio.get_running_loop().call_soon(self._deliver, data[start : start + step])

    def _deliver(self, data: bytes) -> None:
        if not self.closed:
            self._protocol.data_received(data)

    def hang_up(self) -> None:
        self._lose(None)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self._lose, None)

    def _lose(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self.lost.set()
            self._protocol.connection_lost(error)
