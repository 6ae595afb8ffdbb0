"""Applications that write in transactions: some crash, some pause for so long that another instance takes over."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.cluster.connection import ClusterView, Key
from tests.simulation.cluster.transactions.reading import GroupOffset, PartitionReader, since
from tests.simulation.cluster.transactions.session import Fenced, MustAbort, ProducerSession
from tests.support.transactions.history import Attempt, End, History, Reading, Transform

_TIMEOUT_MS = 4_000
_CRASHES, _PAUSES, _ABORTS = 0.06, 0.06, 0.2
"""Probabilities that an instance ends within a transaction, that it pauses, and that it aborts the transaction."""
_INPUTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Application:
    """An application that writes to `keys`, and what it speaks with: its view of the cluster, and a clock."""

    name: str
    transactional_id: str
    keys: Sequence[Key]
    history: History
    view: ClusterView
    wall_ms: Callable[[], int]
    wrong: Callable[[str], None]
    version: int
    """Version of the transaction protocol."""

    def session(self) -> ProducerSession:
        """Return a new instance of its producer."""
        return ProducerSession(
            self.transactional_id,
            self.view,
            self.wall_ms,
            self.wrong,
            version=self.version,
            timeout_ms=_TIMEOUT_MS,
        )


class Writer:
    """One of the applications with the same transactional id, which fence each other."""

    def __init__(self, application: Application) -> None:
        self.name = application.name
        self.stopped = False
        self.settled = asyncio.Event()
        """Set when the application has ended after it was stopped."""
        self._application = application
        self._keys = list(application.keys)
        self._view = application.view
        self._rng: random.Random = application.view.random
        self._count = 0

    async def run(self) -> None:
        while not self.stopped:
            session = self._application.session()
            try:
                await session.begin()
                await self._instance(session)
            except Fenced:
                pass
            except MustAbort:
                # InitProducerId was refused, which the session has reported.
                return
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))
        self.settled.set()

    async def _instance(self, session: ProducerSession) -> None:
        """Run transactions until the instance crashes or ends. Raises Fenced."""
        await self._started()
        for _ in range(self._rng.randint(1, 12)):
            if self.stopped:
                return
            attempt = self._next()
            self._application.history.attempts.append(attempt)
            try:
                if not await self._fill(session, attempt):
                    return
                if self._rng.random() < _ABORTS:
                    raise MustAbort
            except MustAbort:
                attempt.end = End.ABORTED
                await session.abort()
                continue
            attempt.end = End.COMMIT_ASKED
            attempt.end, goes_on = await session.commit()
            if not goes_on:
                return
            self._was_committed(attempt)
            await asyncio.sleep(self._rng.uniform(0.0, 0.2))

    def _next(self) -> Attempt:
        self._count += 1
        return Attempt(f"{self.name}/{self._count}")

    async def _fill(self, session: ProducerSession, attempt: Attempt) -> bool:
        """Write the records of a transaction. Returns False if the instance crashes. Raises Fenced and MustAbort."""
        for number in range(self._rng.randint(1, 4)):
            key = self._rng.choice(self._keys)
            padding = "." * self._rng.choice((0, 0, 100, 1_000))
            values = [
                f"{attempt.name}:{number}.{part}:{padding}".encode() for part in range(self._rng.choice((1, 1, 3)))
            ]
            if not await self._send(session, attempt, key, values):
                return False
        return True

    async def _send(self, session: ProducerSession, attempt: Attempt, key: Key, values: Sequence[bytes]) -> bool:
        attempt.outputs.setdefault(key, []).extend(values)
        await session.send(key, values)
        chance = self._rng.random()
        if chance < _CRASHES:
            return False
        if chance < _CRASHES + _PAUSES:
            await asyncio.sleep(self._rng.choice((self._rng.uniform(0.0, 1.0), self._rng.uniform(1.0, 7.0))))
        return True

    async def _started(self) -> None:
        """Prepare a new instance, which has taken over the transactional id."""

    def _was_committed(self, attempt: Attempt) -> None:
        """Go on after a committed transaction."""


class Transformer(Writer):
    """Consumes committed records of a partition, and writes one record for each, with the offset that follows them."""

    def __init__(self, application: Application, transform: Transform) -> None:
        super().__init__(application)
        self._transform = transform
        self._offset = 0
        self._reader = PartitionReader(Reading(self.name, transform.source, True), self._view)

    async def _started(self) -> None:
        """Begin where the group's last transaction ended. The earlier instance's transaction was ended before."""
        self._offset = await GroupOffset(self._transform.group, self._transform.source, self._view).stable()
        self._reader.reading.position = self._offset
        self._reader.reading.seen.clear()

    async def _fill(self, session: ProducerSession, attempt: Attempt) -> bool:
        reading = self._reader.reading
        while not since(reading, self._offset):
            if self.stopped:
                return False
            if not await self._reader.some(100):
                await asyncio.sleep(self._rng.uniform(0.02, 0.1))
        inputs = since(reading, self._offset)[: self._rng.randint(1, _INPUTS_MAX)]
        self._transform.attempts.append(attempt)
        attempt.consumed = tuple(seen.offset for seen in inputs)
        attempt.next_offset = inputs[-1].offset + 1
        for seen in inputs:
            value = f"{attempt.name}<{seen.offset}".encode()
            if not await self._send(session, attempt, self._rng.choice(self._keys), [value]):
                return False
        await session.send_offset(self._transform.group, self._transform.source, attempt.next_offset)
        return True

    def _was_committed(self, attempt: Attempt) -> None:
        self._offset = attempt.next_offset
