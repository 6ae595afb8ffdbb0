"""APIs whose handlers are imported with the first request for them (decision 45).

The first request waits for the import, as do others that arrive during it. Afterwards the API has no extra cost.
"""

import asyncio
import logging
from importlib import import_module
from typing import Any

from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.errors import ProtocolError
from broker_runtime.on_demand import Importer, imported
from broker_runtime.wire.handler import FrameHandler, ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import FORMATS

log = logging.getLogger(__name__)

_KEPT_BYTES_MAX = 1024 * 1024
"""Largest request that waits. A larger one imports the module on the event loop, which takes 0.1 s once."""


class ApiOnDemand:
    """A stand-in for the ApiSpec of a module: the module is imported when a handler or schema of the API is needed."""

    def __init__(self, module: str, key: int, name: str, versions: tuple[int, int], attribute: str) -> None:
        self.module = f"broker_runtime.apis.{module}"
        self._attribute = attribute
        self.key = key
        self.name = name
        self.versions = versions
        self.flexible_from = FORMATS[key].flexible_from

    def spec(self) -> ApiSpec[Any]:
        """Return the ApiSpec of the module, which is imported if necessary."""
        found: ApiSpec[Any] = getattr(import_module(self.module), self._attribute)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spec(), name)


class FirstRequests:
    """The requests that wait for the import of the module that serves them."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(
        self, module: str, then: FrameHandler, frame: memoryview, connection: ServedConnection
    ) -> Reply | PendingReply:
        """Return the answer of `then` to the frame; pending if the module has to be imported first."""
        if imported(module) is not None or len(frame) > _KEPT_BYTES_MAX:
            import_module(module)
            return then(frame, connection)
        reply = PendingReply()
        task = asyncio.get_running_loop().create_task(self._handle(module, then, bytes(frame), connection, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        reply.on_cancel = lambda: _cancel(task)
        return reply

    async def _handle(
        self, module: str, then: FrameHandler, frame: bytes, connection: ServedConnection, reply: PendingReply
    ) -> None:
        try:
            await self._importer.load(module)
        except Exception as error:  # noqa: BLE001 - it is counted, and logged now and then
            _refuse(reply, connection, "not-imported", f"{module} cannot be imported: {error!r}")
            return
        try:
            answer = then(memoryview(frame), connection)
        except ProtocolError as error:
            _refuse(reply, connection, error.kind, str(error))
        except Exception as error:
            log.exception("%s failed at its first request", module)
            _refuse(reply, connection, "handler-failed", repr(error))
        else:
            _pass_on(answer, reply)

    async def close(self) -> None:
        """Cancel the waiting requests without an answer."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _refuse(reply: PendingReply, connection: ServedConnection, kind: str, text: str) -> None:
    if not reply.done:
        connection.refuse(kind, text)
        reply.complete(None)


def _pass_on(answer: Reply | PendingReply, reply: PendingReply) -> None:
    if isinstance(answer, PendingReply):
        reply.on_cancel = answer.cancel
        answer.on_complete(reply.complete)
        if reply.done and not answer.done:
            answer.cancel()
    else:
        reply.complete(answer)


def on_demand(module: str, key: int, name: str, versions: tuple[int, int], attribute: str = "API") -> ApiSpec[Any]:
    """Return an entry for a table of APIs, which reads like the ApiSpec of the module.

    `module` is a name within `apis`.
    """
    stand_in: Any = ApiOnDemand(module, key, name, versions, attribute)
    found: ApiSpec[Any] = stand_in
    return found
