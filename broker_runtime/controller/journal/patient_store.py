"""A store that repeats requests until they are answered: a journal's requests are all idempotent."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from broker_runtime.controller.journal.seam import JournalUnavailableError
from broker_runtime.controller.journal.store import ObjectStore, Part, StoredObject, StoreError
from broker_runtime.controller.journal.trouble import Trouble

T = TypeVar("T")

_RETRY_DELAY_S = 0.05
_RETRY_DELAY_MAX_S = 0.5


class PatientStore:
    """Repeats requests to `store`.

    Raises JournalUnavailableError after `patience_s` without an answer.
    """

    def __init__(self, store: ObjectStore, patience_s: float) -> None:
        self._store = store
        self._patience_s = patience_s
        self._trouble = Trouble("the journal's store refuses requests", patience_s)

    async def create(self, name: str, part: Part, data: bytes) -> bool:
        """Create an object; return False if one of that name exists.

        The existing object may be from an earlier attempt of this process that was not answered.
        """
        return await self._again(lambda: self._store.create(name, part, data))

    async def get(self, name: str) -> StoredObject | None:
        return await self._again(lambda: self._store.get(name))

    async def replace(self, name: str, part: Part, data: bytes, version: str) -> bool:
        return await self._again(lambda: self._store.replace(name, part, data, version))

    async def list(self, part: Part) -> Sequence[StoredObject]:
        return await self._again(lambda: self._store.list(part))

    async def delete(self, name: str) -> None:
        await self._again(lambda: self._store.delete(name))

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._patience_s
        delay_s = _RETRY_DELAY_S
        while True:
            try:
                found = await ask()
                self._trouble.ended()
                return found
            except StoreError as error:
                self._trouble.failed(error, loop.time())
                if loop.time() + delay_s >= give_up_s:
                    raise JournalUnavailableError(f"the journal's store does not answer: {error}") from error
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _RETRY_DELAY_MAX_S)
