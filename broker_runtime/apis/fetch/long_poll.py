"""A fetch that waits for data or for max_wait_ms, whichever comes first, and then answers with the data available.

When a partition gets records, only that partition is counted again, however many partitions the fetch names (Kafka's
purgatory). The fetch is answered when there are enough bytes, or when the time has elapsed. The answer sends the
regions that were counted. Partitions are read again only if these regions exceed a size limit of the request, or if a
log has changed in the meantime.
"""

from broker_runtime.apis.fetch.fetch_answer import pack_answer
from broker_runtime.apis.fetch.fetch_look import SessionFetch
from broker_runtime.apis.request.context import FetchContext
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, UnderWay

_COUNTED_AT_ONCE_MAX = 32
"""Partitions that are counted in one iteration of the event loop: about a quarter of a millisecond."""


class LongPoll:
    """One Fetch request that waits for more records.

    It owns its timer, is notified of changes by the session, and answers `call` once.
    """

    __slots__ = (
        "_answering",
        "_count_asked",
        "_fetch",
        "_found",
        "_is_answering",
        "_is_exact",
        "_session",
        "_timer",
        "_wakes",
        "call",
    )

    def __init__(self, fetch: SessionFetch, found: int, context: FetchContext) -> None:
        """`found` is the number of bytes already found."""
        self._fetch = fetch
        self._found = found
        self._session = session = fetch.session
        self._wakes = context.logs.wakes
        self._count_asked = self._is_answering = False
        self._answering: UnderWay | None = None
        """The steps that pack the answer, while they run."""
        self._is_exact = True
        """Whether the data found is within the partitions' limits, so that they need not be read again."""
        self.call = fetch.request.call.later(self._abandon)
        self._timer = context.call_later(fetch.request.max_wait_ms / 1000, self.call.guarded(self._answer))
        session.wait(self._count_soon, self._replaced)

    def _count_soon(self) -> None:
        """Count changed partitions in a later iteration of the event loop, when all current changes are known."""
        if not self._count_asked:
            self._count_asked = True
            self._wakes.add(iter((self.call.guarded(self._count),)))

    def _count(self) -> None:
        self._count_asked = False
        if self.call.done or self._is_answering:
            return
        changed, urgent = self._session.changed, False
        for _ in range(min(len(changed), _COUNTED_AT_ONCE_MAX)):
            part, _ = changed.popitem()
            more, is_urgent = self._fetch.recount(part)
            self._found += more
            urgent = urgent or is_urgent
            self._is_exact = self._is_exact and (part.region is None or part.region.length <= part.max_bytes)
        if self._found >= self._fetch.request.min_bytes or urgent:
            self._answer()
        elif changed:
            self._count_soon()

    def _answer(self) -> None:
        if self._is_answering:
            return
        self._is_answering = True
        self._timer.cancel()
        fetch, session = self._fetch, self._session
        is_exact = self._is_exact and not session.changed and self._found <= fetch.request.max_bytes
        session.stop_waiting()
        if fetch.is_long:
            session.is_busy = True
            self._answering = self.call.do(self._answer_in_steps(is_exact))
        else:
            if not is_exact:
                fetch.read()
            self.call.complete(fetch.reply())

    def _answer_in_steps(self, is_exact: bool) -> Steps[None]:
        is_open = True
        try:
            if not is_exact:
                yield from self._fetch.read_many()
            reply = yield from self._fetch.reply_in_steps()
            is_open = False
        finally:
            self._session.stop_waiting()
            self._session.is_busy = False
            if is_open:
                # The client has disconnected, or a step has failed.
                self._fetch.abandoned()
        self.call.complete(reply)

    def _replaced(self, error: ErrorCode) -> None:
        """End the wait because another request continues the session, or the session has ended (code NONE)."""
        if error == ErrorCode.NONE and not self._fetch.is_long:
            self._answer()
        else:
            self._stop()
            told = ErrorCode.FETCH_SESSION_ID_NOT_FOUND if error == ErrorCode.NONE else error
            self.call.complete(pack_answer(self._fetch.request, (), self._session.id, told))

    def _abandon(self) -> None:
        """End the wait because the client has disconnected. A session is kept, because the client may reconnect."""
        if self._answering is not None:
            # The steps abandon the fetch when they end, because no step may run on partitions that are being removed.
            self._answering.cancel()
            return
        self._stop()
        self._fetch.abandoned()

    def _stop(self) -> None:
        self._timer.cancel()
        self._session.stop_waiting()
