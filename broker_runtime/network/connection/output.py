"""Send chunks through a transport; what it does not take stays in the list, in order. Shell.

One write sends many replies, and file regions are sent without passing through Python. Small regions are read and
joined with the bytes before them instead: one system call and one packet fewer.
"""

from collections.abc import Sequence

from broker_runtime.network.sockets.transport import FileUnreadableError, Transport
from broker_runtime.wire.answer_memory import READ_AHEAD_BYTES, SMALL_REGION_BYTES
from broker_runtime.wire.reply import Chunk, FileRegion

_MAX_VECTORS = 512
_SLICE_BYTES = 4 * 1024 * 1024
"""After this many bytes with file regions among them, other connections are served."""

_Plain = bytes | bytearray | memoryview


def send(transport: Transport, chunks: list[Chunk]) -> int:
    """Send chunks and return the bytes taken; `chunks` keeps the rest. Raises OSError if the stream or a file fails."""
    # The usual case: replies that the socket takes as a whole.
    total = 0
    plain: list[_Plain] = []
    for index, chunk in enumerate(chunks):
        if isinstance(chunk, FileRegion):
            if chunk.length > SMALL_REGION_BYTES or total + chunk.length > READ_AHEAD_BYTES:
                return _send_in_parts(transport, chunks)
            chunk = chunks[index] = _read_region(chunk)
        total += len(chunk)
        plain.append(chunk)
        if len(plain) > _MAX_VECTORS:
            return _send_in_parts(transport, chunks)
    try:
        sent = transport.write(plain)
    except BlockingIOError:
        return 0
    if sent == total:
        chunks.clear()
    else:
        _drop_sent(chunks, plain, sent)
    return sent


def _send_in_parts(transport: Transport, chunks: list[Chunk]) -> int:
    total = 0
    try:
        while chunks:
            head = chunks[0]
            if isinstance(head, FileRegion) and head.length > SMALL_REGION_BYTES:
                total += _send_region(transport, head)
                if head.length == 0:
                    del chunks[0]
                if total >= _SLICE_BYTES:
                    break
                continue
            plain = _leading_bytes(chunks)
            sent = transport.write(plain)
            total += sent
            if not _drop_sent(chunks, plain, sent) or len(plain) >= _MAX_VECTORS or total >= _SLICE_BYTES:
                # The socket is full, or other connections are served now: reading so many regions takes a millisecond.
                break
    except BlockingIOError:
        pass
    return total


def _leading_bytes(chunks: list[Chunk]) -> list[_Plain]:
    """Return the chunks before the first large region; replace small regions by their bytes in place.

    No region is read behind READ_AHEAD_BYTES: while a client does not read its answer, they would stay in memory.
    """
    plain: list[_Plain] = []
    total = 0
    for index, chunk in enumerate(chunks):
        if isinstance(chunk, FileRegion):
            if chunk.length > SMALL_REGION_BYTES or (plain and total + chunk.length > READ_AHEAD_BYTES):
                break
            chunk = chunks[index] = _read_region(chunk)
        total += len(chunk)
        plain.append(chunk)
        if len(plain) >= _MAX_VECTORS:
            break
    return plain


def _drop_sent(chunks: list[Chunk], offered: Sequence[_Plain], sent: int) -> bool:
    """Remove `sent` bytes of `offered`, with which `chunks` begins. Returns False if only a part of them was taken."""
    whole = 0
    for chunk in offered:
        if len(chunk) > sent:
            chunks[whole] = memoryview(chunk)[sent:]
            break
        sent -= len(chunk)
        whole += 1
    del chunks[:whole]
    return whole == len(offered)


def _read_region(region: FileRegion) -> bytes:
    try:
        data = region.read()
    except OSError as error:
        _notify_owner(region)
        raise FileUnreadableError(str(error)) from error
    if len(data) < region.length:
        _notify_owner(region)
        raise FileUnreadableError("a log file is shorter than its index says")
    return data


def _send_region(transport: Transport, region: FileRegion) -> int:
    try:
        return transport.send_region(region)
    except FileUnreadableError:
        _notify_owner(region)
        raise


def _notify_owner(region: FileRegion) -> None:
    if region.on_unreadable is not None:
        region.on_unreadable()
