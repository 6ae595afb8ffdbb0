"""An asyncio event loop in virtual time: nothing waits, time jumps to the next timer. One thread, no sockets.

Every callback belongs to an `Owner`, a simulated process, through its context. Callbacks of a dead process never run,
not even its `finally` blocks. Callbacks of a paused one run when it is resumed, as after SIGSTOP. Connections are the
network's (`connector`). The loop knows nothing of Kafka.
"""

import asyncio
import contextvars
import heapq
import random
import socket
from collections.abc import Callable
from typing import Any, Protocol

START_S = 1_000.0
"""Not zero, so that a mixture of durations and points in time shows."""


class SimulationError(Exception):
    """The simulation itself cannot continue: nothing is scheduled any more, or too much time has passed."""


class Owner:
    """The owner of callbacks.

    Tasks are kept, so that no task of a dead owner is collected and cleaned up midway.
    """

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        self.paused = False
        self.deferred: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(_OWNER.set, self)


_OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


def current_owner() -> Owner | None:
    return _OWNER.get()


class Connector(Protocol):
    async def connect(self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Any: ...


class _OwnedHandle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


class _OwnedTimer(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


def _may_run(handle: Any) -> bool:
    owner = handle._context.get(_OWNER)
    if owner is None or (owner.alive and not owner.paused):
        return True
    # Also for a dead owner: the handle never runs during the simulation, but is needed to end its coroutines later.
    owner.deferred.append(handle)
    return False


class _TimeJumps:
    """Replaces a selector: waiting sets the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise SimulationError("nothing is scheduled any more: everything waits for something else")
        if timeout_s > 0:
            self._loop.jump_to_next_timer()
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, seed: int, limit_s: float) -> None:
        super().__init__()
        self._now_s = START_S
        self._limit_s = START_S + limit_s
        self._selector = _TimeJumps(self)
        self._clock_resolution = 1e-9
        self._scheduled: list[asyncio.TimerHandle]
        self._random = random.Random(f"{seed}/disk")
        self.connector: Connector | None = None

    def time(self) -> float:
        return self._now_s

    def jump_to_next_timer(self) -> None:
        self._now_s = max(self._now_s, self._scheduled[0].when())
        if self._now_s > self._limit_s:
            raise SimulationError(f"not over after {self._limit_s - START_S:g} s of virtual time")

    # Callbacks with their owner

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _OwnedHandle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _OwnedTimer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        task = super().create_task(coro, name=name, context=context)
        owner = current_owner() if context is None else context.get(_OWNER)
        if owner is not None:
            owner.tasks.append(task)
            if len(owner.tasks) > 256:
                owner.tasks = [known for known in owner.tasks if not known.done()]
        return task

    def resume(self, owner: Owner) -> None:
        owner.paused = False
        deferred, owner.deferred = owner.deferred, []
        self._ready.extend(deferred)  # type: ignore[attr-defined]

    # Requests of a real loop to the operating system

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run the function after a moment, as a disk needs one; never if the process dies before."""
        done = self.create_future()
        latency_s = 0.25 if self._random.random() < 0.01 else self._random.uniform(0.0002, 0.004)
        self.call_later(latency_s, self._execute, done, func, args)
        return done

    def _execute(self, done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is the caller's, as with a real executor
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, int(port)))]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self.connector is not None
        return await self.connector.connect(protocol_factory, host, port)

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there are no events."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread."""
