"""Offsets committed under faults: an acknowledged one must be there, whichever broker coordinates the group later."""

import asyncio
from collections.abc import Callable

from broker_runtime.errors import ErrorCode
from broker_runtime.wire.versions import OFFSET_COMMIT, OFFSET_FETCH
from tests.simulation.cluster.connection import ClusterView, Unanswered
from tests.simulation.cluster.members.commits import commit_fields, fetch_fields
from tests.simulation.cluster.members.coordinator import Coordinator
from tests.simulation.cluster.members.ownership import Committed

_COMMIT_VERSION, _FETCH_VERSION = 8, 8


class Committer:
    """Commits to a group without members, each offset until it is acknowledged, and checks the committed offset."""

    def __init__(self, group: str, topic: str, view: ClusterView, wrong: Callable[[str], None]) -> None:
        self.group = group
        self.committed = Committed()
        self.commits = self.looks = 0
        self.stopped = False
        self.settled = False
        """Whether the committer has ended, after a last check."""
        self._topic = topic
        self._view = view
        self._coordinator = Coordinator(view, group)
        self._wrong = wrong

    async def run(self) -> None:
        rng = self._view.random
        offset = 0
        while not self.stopped:
            await self._commit(offset)
            offset += 1
            if rng.random() < 0.3:
                await self._look()
            await asyncio.sleep(rng.uniform(0.0, 0.2))
        await self._look()
        self.settled = True

    async def _commit(self, offset: int) -> None:
        while self.committed.acknowledged < offset:
            code = ErrorCode.NETWORK_EXCEPTION
            try:
                content = commit_fields(self.group, self._topic, {0: offset})
                answer = await self._coordinator.ask(OFFSET_COMMIT, _COMMIT_VERSION, content)
                code = ErrorCode(int(answer.topics[0].partitions[0].error_code))
            except Unanswered:
                pass
            if code == ErrorCode.NONE:
                self.committed.acknowledged = offset
                self.commits += 1
            else:
                self.committed.unknown.add(offset)
                self._coordinator.note(code)
                await self._pause()

    async def _look(self) -> None:
        """Read the committed offset until a broker answers."""
        while True:
            try:
                content = fetch_fields(self.group, self._topic, (0,))
                answer = await self._coordinator.ask(OFFSET_FETCH, _FETCH_VERSION, content)
            except Unanswered:
                await self._pause()
                continue
            code = ErrorCode(int(answer.groups[0].error_code))
            if code == ErrorCode.NONE:
                break
            self._coordinator.note(code)
            await self._pause()
        self.looks += 1
        part = answer.groups[0].topics[0].partitions[0]
        found, known = int(part.committed_offset), self.committed
        if int(part.error_code) != ErrorCode.NONE or not known.explains(found):
            self._wrong(
                f"{self.group}: offset {found} is committed (code {int(part.error_code)}), {known.acknowledged} was "
                f"acknowledged, of {sorted(known.unknown)[-3:]} it is not known"
            )

    async def _pause(self) -> None:
        await asyncio.sleep(self._view.random.uniform(0.02, 0.2))
