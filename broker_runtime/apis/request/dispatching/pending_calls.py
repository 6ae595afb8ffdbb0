"""Calls that their handlers have not answered when they return: runs the rest of their work, and completes them. Shell.

`dispatch` lists the forms in which a handler returns its work. Steps run at once if they are few, and otherwise in
slices; awaitables run as tasks. The result of either may be work again, until it is a reply. Each connection has one
call at work at a time, because it is muted until the call ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from dataclasses import is_dataclass
from functools import partial
from typing import Any

from broker_runtime.apis.request.call import Call, Completion
from broker_runtime.apis.request.context import Handled
from broker_runtime.apis.request.dispatching.answering import Settled, refused, settled
from broker_runtime.errors import KafkaError, ProtocolError
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.answer_memory import AnswerPacking
from broker_runtime.wire.encoding.decode import released
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.limits import SMALL_BYTES, RequestTooLargeError
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import JOIN_GROUP, SYNC_GROUP

log = logging.getLogger(__name__)

_TRACE_INTERVAL_S = 10.0
_WAIT_FOR_OTHERS = (JOIN_GROUP, SYNC_GROUP)
"""APIs whose coroutines wait for other clients, and therefore must not hold room meanwhile."""


class PendingCalls:
    """The tasks and sliced work of one dispatcher's pending calls."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._work: set[asyncio.Future[Settled]] = set()
        """Tasks of awaitables, and results of steps that run in slices."""
        self._traced_s: dict[int, float] = {}
        """Time of the last traceback, in seconds, for each API's key."""

    def wait(self, call: Call) -> Call:
        """Return the call, which stays pending until other work completes it."""
        call.handled_s = self._completion.now()
        if isinstance(call.request, RequestReader):
            # The reader's frame is valid only during `Dispatcher.handle`.
            call.request = None
        return call

    def run(self, call: Call, steps: Steps[Settled], size: int) -> Reply | Call:
        """Run the steps of a call at once if they are few, otherwise in slices.

        Returns the packed reply if it exists now, otherwise the call, which is completed later. `size` is the number of
        request bytes that become objects of many times their size: if there are more than SMALL_BYTES, what has not
        ended at once waits for room. Raises what the first steps raise.
        """
        room = size if size > SMALL_BYTES else 0
        slices, packing = self._completion.slices, AnswerPacking(self._completion.answers, call)
        done, answer = slices.begin(steps, packing)
        if done:
            if isinstance(answer, tuple):
                call.record_answer(answer)
                return answer
            assert answer is not None
            reads_itself = isinstance(call.request, RequestReader) and call.api.key not in _WAIT_FOR_OTHERS
            self._work_on(self.wait(call), answer, room if reads_itself else 0)
            return call
        self.wait(call)
        result = slices.add(steps, room, partial(_count, call), packing)
        call.later(None if call.api.outlives_client else partial(_drop, result))
        self._complete_after(call, result)
        return call

    def _work_on(self, call: Call, answer: Call | Awaitable[Handled], size: int = 0) -> None:
        """Run an awaitable as a task, when there is room for `size` bytes. There is nothing to run for the call."""
        if isinstance(answer, Call):
            assert answer is call
            return
        task = asyncio.ensure_future(self._awaited(call, answer, size))
        call.later(partial(_cancel, task))
        self._complete_after(call, task)

    async def _awaited(self, call: Call, work: Awaitable[Handled], size: int) -> Settled:
        slices, packing = self._completion.slices, AnswerPacking(self._completion.answers, call)
        try:
            async with slices.room(size):
                done = await work
                while not isinstance(done, tuple):
                    done = await slices.finish(settled(call, done), packing)
                return done
        finally:
            if isinstance(work, Coroutine):
                # Without an effect, unless it was cancelled while it waited for room.
                work.close()

    def _complete_after(self, call: Call, work: "asyncio.Future[Settled]") -> None:
        self._work.add(work)
        work.add_done_callback(partial(self._ended, call))

    def _ended(self, call: Call, work: "asyncio.Future[Settled]") -> None:
        """Complete the call with the result of its work, or wait for the work that this returns."""
        self._work.discard(work)
        # The work may have packed more after the call ended, because the client has gone.
        self._completion.answers.packed(call)
        if work.cancelled():
            call.give_up()
        elif (error := work.exception()) is not None:
            self._failed(call, error)
        elif isinstance(answer := work.result(), tuple):
            self._complete(call, answer)
        elif call.done:
            _close(answer)
        else:
            self._work_on(call, answer)

    def _complete(self, call: Call, reply: Reply) -> None:
        call.complete(reply)
        if call.request_bytes > SMALL_BYTES and is_dataclass(call.request):
            request, call.request = call.request, None
            self._completion.slices.do(released(request))

    def _failed(self, call: Call, error: BaseException) -> None:
        name = call.api.name
        if isinstance(error, RequestTooLargeError):
            self._refuse_too_large(call, error)
        elif isinstance(error, ProtocolError):
            call.refuse(error.kind, str(error))
        elif isinstance(error, KafkaError):
            call.refuse("not-answered", f"{name}: {error}")
        else:
            self._trace(call, error)
            call.refuse("handler-failed", f"{name}: {error!r}")

    def _refuse_too_large(self, call: Call, error: RequestTooLargeError) -> None:
        """Refuse a pending call whose request exceeds the limits."""
        if call.done:
            return
        text = f"{call.api.name} v{call.version}: {error}"
        reply = refused(call, text)
        if reply is None:
            call.refuse(error.kind, text)
        else:
            call.connection.refuse(error.kind, text, ends=False)
            call.complete(reply)

    def _trace(self, call: Call, error: BaseException) -> None:
        """Log a bug in a handler with its traceback, but at most once per interval for each API."""
        now_s, key = self._completion.now(), call.api.key
        if now_s - self._traced_s.get(key, -_TRACE_INTERVAL_S) >= _TRACE_INTERVAL_S:
            self._traced_s[key] = now_s
            log.error("the handler of %s failed; the connection is closed", call.api.name, exc_info=error)

    async def close(self) -> None:
        """Cancel all pending calls."""
        # Wait until all tasks have started: a coroutine whose task is cancelled before that would never be awaited.
        await asyncio.sleep(0)
        for each in self._work:
            each.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)


def _close(answer: Call | Awaitable[Handled]) -> None:
    """Close the work of a client that has disconnected."""
    if isinstance(answer, Coroutine):
        answer.close()
    elif isinstance(answer, asyncio.Future):
        answer.cancel()


def _count(call: Call, time_s: float) -> None:
    """Count the time of a slice of the call, in seconds."""
    call.sliced_s += time_s
    call.connection.heavy_s = call.sliced_s


def _drop(work: "asyncio.Future[Any]") -> None:
    work.cancel()


def _cancel(task: "asyncio.Task[Any]") -> None:
    # Cancel only after the task has started. Otherwise its coroutine would never be awaited.
    task.get_loop().call_soon(task.cancel)
