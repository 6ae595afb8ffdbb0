"""Replies on their way to one socket: what the kernel does not take at once waits here, in order. Shell.

Bytes go out with one writev for many replies, file regions with sendfile. Small regions are read and joined
with the bytes before them instead: one system call and one packet fewer.
"""

import errno
import os
from collections import deque
from collections.abc import Sequence

from broker_runtime.wire.reply import Chunk, FileRegion

_SMALL_REGION = 32 * 1024
MAX_VECTORS = 512
_SENDFILE_TURN = 4 * 1024 * 1024


class TruncatedRegionError(OSError):
    """Less of a file can be read than was promised to the client."""


class Output:
    """Made only when something could not be sent at once; most connections never have one."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks: deque[Chunk] = deque(chunks)

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def extend(self, chunks: list[Chunk]) -> None:
        self._chunks.extend(chunks)

    def flush(self, fd: int) -> int:
        """Send what the socket takes now; the number of bytes sent. Raises OSError when the peer has gone."""
        sent_total = 0
        chunks = self._chunks
        while chunks:
            head = chunks[0]
            if isinstance(head, FileRegion) and head.length > _SMALL_REGION:
                sent = _send_region(fd, head)
                if head.length == 0:
                    chunks.popleft()
                sent_total += max(sent, 0)
                if sent < 0 or sent_total >= _SENDFILE_TURN:
                    return sent_total
                continue
            vectors = self._leading_bytes()
            try:
                sent = os.writev(fd, vectors)
            except BlockingIOError:
                return sent_total
            sent_total += sent
            if not self._drop_sent(vectors, sent):
                return sent_total
        return sent_total

    def _leading_bytes(self) -> list[bytes | bytearray | memoryview]:
        """The chunks before the first large region; small regions are turned into bytes in place."""
        vectors: list[bytes | bytearray | memoryview] = []
        chunks = self._chunks
        for index, chunk in enumerate(chunks):
            if isinstance(chunk, FileRegion):
                if chunk.length > _SMALL_REGION:
                    break
                chunk = chunks[index] = _read_region(chunk)
            vectors.append(chunk)
            if len(vectors) >= MAX_VECTORS:
                break
        return vectors

    def _drop_sent(self, offered: Sequence[bytes | bytearray | memoryview], sent: int) -> bool:
        """Forget `sent` bytes of those offered; False when the socket took only a part of them."""
        chunks = self._chunks
        for chunk in offered:
            if len(chunk) > sent:
                chunks[0] = memoryview(chunk)[sent:]
                return False
            sent -= len(chunk)
            chunks.popleft()
        return True


def _read_region(region: FileRegion) -> bytes:
    try:
        data = region.read()
    except OSError as error:
        raise _unreadable(region, str(error)) from error
    if len(data) < region.length:
        raise _unreadable(region, "a log file is shorter than its index says")
    return data


def _unreadable(region: FileRegion, why: str) -> TruncatedRegionError:
    if region.on_unreadable is not None:
        region.on_unreadable()
    return TruncatedRegionError(why)


def _send_region(fd: int, region: FileRegion) -> int:
    """Advance `region` by what was sent; -1 when the socket is full."""
    try:
        sent = os.sendfile(fd, region.file.fileno(), region.offset, min(region.length, _SENDFILE_TURN))
    except BlockingIOError:
        return -1
    except OSError as error:
        # All other errors are the socket's.
        if error.errno == errno.EIO:
            raise _unreadable(region, str(error)) from error
        raise
    if sent == 0:
        raise _unreadable(region, "a log file is shorter than its index says")
    region.offset += sent
    region.length -= sent
    return sent


def sent_at_once(fd: int, chunks: list[Chunk]) -> bool:
    """Plain bytes that the socket takes as a whole: nearly every reply. Otherwise `chunks` is what is left to send."""
    total = 0
    plain: list[bytes | bytearray | memoryview] = []
    for chunk in chunks:
        if isinstance(chunk, FileRegion):
            return False
        total += len(chunk)
        plain.append(chunk)
    if len(plain) > MAX_VECTORS:
        return False
    try:
        sent = os.writev(fd, plain)
    except BlockingIOError:
        return False
    if sent < total:
        _skip(chunks, sent)
        return False
    return True


def _skip(chunks: list[Chunk], sent: int) -> None:
    done = 0
    for chunk in chunks:
        length = chunk.length if isinstance(chunk, FileRegion) else len(chunk)
        if length > sent:
            break
        sent -= length
        done += 1
    del chunks[:done]
    head = chunks[0]
    if sent and not isinstance(head, FileRegion):
        chunks[0] = memoryview(head)[sent:]
