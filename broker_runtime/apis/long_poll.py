"""A fetch that waits for data or for max_wait_ms, whichever comes first, then answers with what is there."""

from broker_runtime.apis.context import FetchContext
from broker_runtime.apis.fetch_answer import pack_answer
from broker_runtime.apis.fetch_look import SessionFetch
from broker_runtime.errors import ErrorCode


class LongPoll:
    """Owns the timer, and is told by the session of what changes; `call` is answered once."""

    __slots__ = ("_fetch", "_look_asked", "_session", "_timer", "_wakes", "call")

    def __init__(self, fetch: SessionFetch, context: FetchContext) -> None:
        self._fetch = fetch
        self._session = session = fetch.session
        self._wakes = context.logs.wakes
        self._look_asked = False
        self.call = fetch.request.call.later(self._abandon)
        self._timer = context.call_later(fetch.request.max_wait_ms / 1000, self.call.guarded(self._look_and_answer))
        session.wait(self._look_soon, self._replaced)

    def _look_soon(self) -> None:
        """Not before all that has changed by now is known, and in a turn of its own."""
        if not self._look_asked:
            self._look_asked = True
            self._wakes.add(iter((self.call.guarded(self._look_again),)))

    def _look_again(self) -> None:
        self._look_asked = False
        if self.call.done:
            return
        found, urgent = self._fetch.look()
        if found >= self._fetch.request.min_bytes or urgent:
            self._answer()
        else:
            self._session.watch_all_looked_at()

    def _look_and_answer(self) -> None:
        self._fetch.look()
        self._answer()

    def _answer(self) -> None:
        self._stop()
        self.call.complete(self._fetch.answer())

    def _replaced(self, error: ErrorCode) -> None:
        """Another request goes on with the session, or the session is over."""
        if error == ErrorCode.NONE:
            self._look_and_answer()
        else:
            self._stop()
            self.call.complete(pack_answer(self._fetch.request, (), self._session.id, error))

    def _abandon(self) -> None:
        """The client has gone. What it has asked for is kept if that is a session's, for it may come back."""
        self._stop()
        self._fetch.abandoned()

    def _stop(self) -> None:
        self._timer.cancel()
        self._session.stop_waiting()
