"""Whole frames: requests with size prefix and header to bytes, received bytes to frames, frames to replies. Pure."""

import io
from collections.abc import Iterator
from typing import TypeVar

from kio.serial import entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from kafka_bytes.frames import SIZE
from sluicegate_operator.kafka_admin.connecting.reading import MalformedError, reader

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Limit of a frame in bytes.

A DescribeConfigs of every key is about 60 KB, the Metadata of 10,000 partitions about 500 KB.
"""

Reply = TypeVar("Reply", bound=ResponsePayload)


def encode_request(request: RequestPayload, correlation_id: int, client_id: str) -> bytes:
    header_type = request.__header_schema__
    header = header_type(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    buffer = io.BytesIO()
    buffer.write(bytes(SIZE.size))
    entity_writer(header_type)(buffer, header)
    entity_writer(type(request))(buffer, request)
    frame = buffer.getbuffer()
    SIZE.pack_into(frame, 0, len(frame) - SIZE.size)
    return bytes(frame)


def decode_reply(kind: type[Reply], frame: bytes) -> Reply:
    """Decode a whole reply without its size prefix. Raises MalformedError."""
    try:
        _header, offset = reader(kind.__header_schema__)(frame, 0)
        reply, end = reader(kind)(frame, offset)
    except MalformedError as error:
        raise MalformedError(f"{kind.__name__} v{kind.__version__}: {error}") from None
    if end != len(frame):
        raise MalformedError(f"{kind.__name__} v{kind.__version__}: {len(frame) - end} bytes are left over")
    whole: Reply = reply
    return whole


class FrameSplitter:
    """Collects the bytes of a connection, and yields whole frames without their size prefix."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete after `data`.

        Raises MalformedError for an impossible size, before the frame is buffered.
        """
        self._buffer += data
        while len(self._buffer) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._buffer)
            if not 4 <= size <= MAX_FRAME_BYTES:
                raise MalformedError(f"a response of {size} bytes (4 to {MAX_FRAME_BYTES} are possible)")
            if len(self._buffer) < 4 + size:
                return
            frame = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            yield frame
