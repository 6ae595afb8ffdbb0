"""Carries what the watches' threads hear to the event loop: in order, some in a turn, and never without limit."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping

from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.held import Held
from sluicegate_operator.kube.kind_cache import Change, Key
from sluicegate_operator.kube.kinds import Kind
from sluicegate_operator.kube.watchfulness import Watchfulness

A_TURN = 64
"""So much news is taken in before others have the event loop."""
WAITING_MAX = 2000
"""News that waits for the event loop; whoever reads more from a watch waits for it."""

News = Callable[[Watchfulness], list[Change]] | KubeError


class Inbox:
    """Any thread may send; `take` is called on the event loop."""

    def __init__(self, take: Callable[[Kind, News], None]) -> None:
        self._take = take
        self._waiting: deque[tuple[Kind, News]] = deque()
        self._room = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        with self._room:
            self._loop = None
            self._waiting.clear()
            self._room.notify_all()

    def send(self, news: News, kind: Kind) -> None:
        with self._room:
            self._room.wait_for(lambda: self._loop is None or len(self._waiting) < WAITING_MAX)
            if self._loop is None:
                return
            self._waiting.append((kind, news))
            if not self._scheduled:
                self._scheduled = True
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        with self._room:
            taken = [self._waiting.popleft() for _ in range(min(A_TURN, len(self._waiting)))]
            self._scheduled = bool(self._waiting)
            if self._scheduled and self._loop is not None:
                self._loop.call_soon(self._drain)
            self._room.notify_all()
        for kind, news in taken:
            self._take(kind, news)


class Hearing:
    """What a watch's thread calls, see kube.watching: each is news for the event loop."""

    def __init__(self, kinds: Mapping[Kind, Watchfulness], inbox: Inbox) -> None:
        self._kinds = kinds
        self._inbox = inbox

    def known(self, kind: Kind, key: Key) -> Held | None:
        return self._kinds[kind].objects.get(*key)

    def put(self, kind: Kind, held: Held) -> None:
        self._inbox.send(lambda one: one.objects.put(held), kind)

    def heard(self, kind: Kind, held: Held) -> None:
        def take(one: Watchfulness) -> list[Change]:
            one.version = max(one.version, held.version)
            return one.objects.put(held)

        self._inbox.send(take, kind)

    def gone(self, kind: Kind, key: Key, version: int) -> None:
        def take(one: Watchfulness) -> list[Change]:
            one.version = max(one.version, version)
            return one.objects.remove(key, version)

        self._inbox.send(take, kind)

    def listed(self, kind: Kind, keys: Collection[Key], version: int) -> None:
        def take(one: Watchfulness) -> list[Change]:
            departed = [key for key in one.objects.names() if key not in keys]
            changes = [change for key in departed for change in one.objects.remove(key, version)]
            one.version = max(one.version, version)
            one.lists += 1
            one.filled.set()
            return changes

        self._inbox.send(take, kind)

    def restored(self, kind: Kind) -> None:
        def take(one: Watchfulness) -> list[Change]:
            one.version = 0
            one.objects.forget_versions()
            return []

        self._inbox.send(take, kind)

    def word(self, kind: Kind, version: int) -> None:
        def take(one: Watchfulness) -> list[Change]:
            one.version = max(one.version, version)
            return []

        self._inbox.send(take, kind)

    def trouble(self, kind: Kind, error: KubeError) -> None:
        self._inbox.send(error, kind)
