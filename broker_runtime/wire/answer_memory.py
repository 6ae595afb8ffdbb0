"""Count the memory of all answers of one process: answers that are being packed, or that clients do not read. Pure.

An answer is counted by the handler's side while it grows (`grown`), and by its connection while the socket takes no
more of it (`hold`). Above the limit, `is_short` is True until less is in use:

- The packing of answers pauses, except that of the oldest, so that one answer always makes progress.
- `on_short` asks the owner of the connections to close those whose clients do not read (`slowest`).

So all answers together take at most the limit, the largest answer, and what the connections hold in small answers for
one iteration of the event loop. Regions of files count as far as they are read in advance.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import nlargest
from itertools import islice

from broker_runtime.wire.limits import DEFAULT_LIMITS
from broker_runtime.wire.reply import Chunk, FileRegion

SMALL_REGION_BYTES = 32 * 1024
"""Regions of at most so many bytes are read, and sent together with the bytes around them."""
READ_AHEAD_BYTES = 1024 * 1024
"""Bytes of regions that are read for one write."""
_RESUMED_BYTES = 65_536
"""An answer that is packed grows by at least so many bytes before it pauses again."""
_ENOUGH, _TOO_MUCH = 0.9, 1.25
"""Shares of the limit.

Memory is reduced to the first one, so that connections are compared rarely. Beyond the second one, no client gets more
time to read.
"""
_PROGRESS_BYTES = 65_536
_PROGRESS_PART = 64
"""A client makes progress when it reads _PROGRESS_BYTES, and at least this part of the bytes that it keeps in memory.

So a byte now and then does not count, and a client cannot keep a large answer for minutes by reading it in drops.
"""
_PATIENCE_S = 0.1
"""Time that a client may make no progress while clients that do not read fill the memory."""
_PATIENCE_BESIDE_PACKING_S = 5.0
"""The same while answers that are being packed fill the memory: they can wait."""


class SharedBytes(bytes):
    """A part of answers to many clients, such as cached metadata. It is counted once, not for each client."""

    holders: int = 0
    """Number of connections that have not sent it yet."""


class _Unread:
    """The answers that one connection has not sent."""

    __slots__ = ("own", "progress_s", "shared", "since_s", "taken")

    def __init__(self, now_s: float) -> None:
        self.own = 0
        """Bytes of this connection alone."""
        self.shared: list[SharedBytes] = []
        self.since_s = now_s
        """Time since which its socket is full, in seconds."""
        self.progress_s = now_s
        """Time of the last progress of its client, in seconds."""
        self.taken = 0
        """Bytes that the client has read since then."""

    def rank(self, now_s: float, patience_s: float) -> tuple[bool, float]:
        """Return when to close the connection: the one with the greatest rank first.

        Clients that have made no progress for `patience_s` are first, by the bytes that wait times the time that they
        have waited. Among the others, the one that was served last is first: a flood then ends itself.
        """
        waited_s = now_s - self.progress_s
        return (True, self.own * waited_s) if waited_s >= patience_s else (False, self.since_s)


def _nothing() -> None:
    """Close no connection."""


class AnswerMemory:
    """Divides `limit` bytes among the answers of one process. Connections are identified by number."""

    __slots__ = ("_packed", "_paused", "_unread", "is_short", "limit", "on_short", "unread_bytes", "used")

    def __init__(self, limit: int = DEFAULT_LIMITS.queued_response_bytes_max) -> None:
        self.limit = limit
        self.used = 0
        """Bytes of all answers."""
        self.unread_bytes = 0
        """Bytes of the answers that connections hold and clients have not read."""
        self.is_short = False
        """Whether more than `limit` bytes are in use."""
        self.on_short: Callable[[], None] = _nothing
        """Called when memory gets short, and each time when a connection holds more while it is short."""
        self._packed: dict[Hashable, int] = {}
        """Bytes of each answer that is being packed, by its call; the oldest first."""
        self._paused: dict[Hashable, Callable[[], None]] = {}
        """How to resume the packing of an answer, by its call."""
        self._unread: dict[int, _Unread] = {}

    @property
    def unread(self) -> int:
        """Number of connections whose client has not read all of its answers."""
        return len(self._unread)

    @property
    def paused(self) -> int:
        """Number of answers whose packing pauses."""
        return len(self._paused)

    @property
    def is_urgent(self) -> bool:
        """Whether answers that clients do not read take much more memory than the limit."""
        return self.unread_bytes > self.limit * _TOO_MUCH

    def grown(self, call: Hashable, size: int) -> None:
        """Note that the answer of `call` has `size` bytes now. Call `packed` when it is complete or given up."""
        before = self._packed.get(call, 0)
        self._packed[call] = size
        self._use(size - before)

    def has_to_pause(self, call: Hashable) -> bool:
        """Whether the packing of the answer of `call` has to pause: memory is short, and another answer is older."""
        return self.is_short and call in self._packed and next(iter(self._packed)) != call

    def pause(self, call: Hashable, resume: Callable[[], None]) -> None:
        """Call `resume` once: when packing may continue, or in `packed` if the answer is given up."""
        self._paused[call] = resume

    def packed(self, call: Hashable) -> None:
        """Release the bytes of an answer that is being packed: its connection has it now, or it is given up."""
        size = self._packed.pop(call, 0)
        resume = self._paused.pop(call, None)
        if resume is not None:
            resume()
        if size:
            self._use(-size)

    def hold(self, connection: int, chunks: Iterable[Chunk], now_s: float) -> None:
        """Count chunks that the connection's socket does not take now, until `sent`."""
        self._unread[connection] = _Unread(now_s)
        self.hold_more(connection, chunks)

    def hold_more(self, connection: int, chunks: Iterable[Chunk]) -> None:
        """Count chunks that follow those of `hold`."""
        unread = self._unread[connection]
        own = shared = read_ahead = 0
        for chunk in chunks:
            if isinstance(chunk, FileRegion):
                if chunk.length <= SMALL_REGION_BYTES:
                    read_ahead += chunk.length
                continue
            # The rest of a chunk keeps the whole chunk in memory.
            base = chunk.obj if isinstance(chunk, memoryview) else chunk
            size = memoryview(base).nbytes
            if isinstance(base, SharedBytes):
                unread.shared.append(base)
                base.holders += 1
                shared += size if base.holders == 1 else 0
            else:
                own += size
        own += min(read_ahead, READ_AHEAD_BYTES)
        unread.own += own
        self.unread_bytes += own + shared
        self._use(own + shared)
        if self.is_short:
            self.on_short()

    def took(self, connection: int, count: int, now_s: float) -> None:
        """Note that the client has read `count` bytes. The memory counts until it has read everything."""
        unread = self._unread[connection]
        unread.taken += count
        if unread.taken >= max(_PROGRESS_BYTES, unread.own // _PROGRESS_PART):
            unread.taken = 0
            unread.progress_s = now_s

    def sent(self, connection: int) -> None:
        """Release the answers of a connection: its client has read everything, or has gone."""
        unread = self._unread.pop(connection, None)
        if unread is None:
            return
        count = unread.own
        for each in unread.shared:
            each.holders -= 1
            if each.holders == 0:
                count += len(each)
        self.unread_bytes -= count
        self._use(-count)

    def slowest(self, count: int, now_s: float) -> list[int]:
        """Return the connections whose end makes enough memory available, at most `count`: the slowest readers first.

        Only connections beyond their fair share (`_fair_share`) are closed: a client with a small answer keeps its
        connection, whatever clients with large ones do. `_Unread.rank` is the order. Each client has some time for its
        next progress, except while unread answers take much more memory than the limit (`is_urgent`).
        """
        if not self.is_short:
            return []
        share = self._fair_share()
        patience_s = _PATIENCE_S if self.unread_bytes > self.limit else _PATIENCE_BESIDE_PACKING_S
        ranks = [(each.rank(now_s, patience_s), number) for number, each in self._unread.items() if each.own > share]
        if not self.is_urgent:
            ranks = [(rank, number) for rank, number in ranks if rank[0]]
        excess = self.used - self.limit * _ENOUGH
        found: list[int] = []
        for _, number in nlargest(count, ranks):
            if excess <= 0:
                break
            excess -= self._unread[number].own
            found.append(number)
        return found

    def _fair_share(self) -> float:
        """Return the bytes that each connection may keep so that memory is enough (max-min fairness).

        Connections that keep less leave the rest of their share to others. Ending all the connections that keep more
        makes enough memory available.
        """
        sizes = sorted(each.own for each in self._unread.values())
        left = self.limit * _ENOUGH - (self.used - sum(sizes))
        for before, size in enumerate(sizes):
            share = left / (len(sizes) - before)
            if size > share:
                return max(share, 0.0)
            left -= size
        return float(self.limit)

    def _use(self, count: int) -> None:
        was_short = self.is_short
        self.used += count
        self.is_short = self.used > self.limit
        if self.is_short and not was_short:
            self.on_short()
        if count < 0 and self._paused:
            for call in self._resumable():
                self._paused.pop(call)()

    def _resumable(self) -> list[Hashable]:
        """Return the calls whose packing may continue: the one with the oldest answer, and those with room."""
        oldest = next(iter(self._packed), None)
        found = [oldest] if oldest in self._paused else []
        room = 0 if self.is_short else 1 + (self.limit - self.used) // _RESUMED_BYTES
        return found + [call for call in islice(self._paused, room) if call != oldest]


class AnswerPacking:
    """Lets the packing of one answer pause while memory is short. Implements `slicing.slices.Pausing`."""

    __slots__ = ("_call", "_memory")

    def __init__(self, memory: AnswerMemory, call: Hashable) -> None:
        self._memory = memory
        self._call = call

    def is_due(self) -> bool:
        memory = self._memory
        return memory.is_short and memory.has_to_pause(self._call)

    def begin(self, resume: Callable[[], None]) -> None:
        self._memory.pause(self._call, resume)
