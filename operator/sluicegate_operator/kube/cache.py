"""What the operator knows of the API server's objects: fed by watches, and never taken for more than it is.

A kind that has not been listed, or whose watch has said nothing for too long, is an error and not an empty world. What
we write ourselves is in it when the API server has answered, so nobody acts on his own past. Who decides a step that
cannot be taken back gives the uid and resourceVersion that it was decided for, or reads the object again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sluicegate_operator.api.metadata import Resource
from sluicegate_operator.kube.api_server import ApiServer
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.held import Held, Misread, Reader, version_of
from sluicegate_operator.kube.inbox import Hearing, Inbox, News
from sluicegate_operator.kube.kind_cache import Change, KindCache
from sluicegate_operator.kube.kinds import Kind
from sluicegate_operator.kube.watchfulness import Watchfulness
from sluicegate_operator.kube.watching import Watched, Watching

log = logging.getLogger(__name__)

FILL_PATIENCE_S = 5.0
"""Whoever asks for a kind that is still being listed waits so long before it is an error."""
TOLD_A_TURN = 64
"""So many objects are told to who subscribes before others have the event loop."""

Subscriber = Callable[[Kind, Held | None, Held | None], None]
"""Called for each change with what was there before and what is there now."""


class Cache:
    """Belongs to the event loop that `start` is called on. `watched` are its kinds."""

    def __init__(self, server: ApiServer, namespace: str | None, watched: Sequence[Watched]) -> None:
        self._kinds = {one.kind: Watchfulness(one) for one in watched}
        self._inbox = Inbox(self._take)
        hearing = Hearing(self._kinds, self._inbox)
        self._watches = [Watching(server, one, namespace, hearing) for one in watched]
        self._reader = Reader()
        self._subscribers: list[Subscriber] = []
        self._started = False
        self.on_trouble: Callable[[], None] = _nobody_listens
        """Called when a kind gets into trouble or out of it."""

    def start(self) -> None:
        """Nothing happens when it has been started."""
        if self._started:
            return
        self._started = True
        self._inbox.open(asyncio.get_running_loop())
        self._start_next(iter(self._watches))

    def _start_next(self, watches: Iterator[Watching]) -> None:
        """A turn each: who starts a thread waits until it runs, and a busy machine takes its time."""
        if (watch := next(watches, None)) is not None:
            # One that was stopped meanwhile ends at once.
            watch.start()
            asyncio.get_running_loop().call_soon(self._start_next, watches)

    def close(self) -> None:
        self._inbox.close()
        for watch in self._watches:
            watch.stop()

    async def resources(self, kind: Kind, namespace: str, cluster: str) -> list[Resource | Misread]:
        """Of a kind that people write, all that name the cluster, also those that are going. Raises KubeError."""
        known = await self._known(kind)
        return [
            held.value for held in known.of_cluster(namespace, cluster) if isinstance(held.value, Resource | Misread)
        ]

    async def get(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Of another kind. Raises KubeError."""
        held = (await self._known(kind)).get(namespace, name)
        return None if held is None else _document(held)

    async def list(self, kind: Kind, namespace: str, cluster: str, **labels: str) -> list[Mapping[str, Any]]:
        """Of another kind, those that belong to the cluster and have these labels. Raises KubeError."""
        found = [_document(held) for held in (await self._known(kind)).of_cluster(namespace, cluster)]
        return [one for one in found if labels.items() <= (one["metadata"].get("labels") or {}).items()]

    def peek(self, kind: Kind, namespace: str, name: str) -> tuple[bool, Mapping[str, Any] | None]:
        """Whether anybody may go by what is known of the kind, and what is known of this one. One that is None may be
        there all the same, without the label that is watched for or since a moment ago."""
        one = self._kinds.get(kind)
        if one is None or one.why_unknown(time.monotonic()) is not None:
            return False, None
        held = one.objects.get(namespace, name)
        return True, None if held is None else _document(held)

    async def _known(self, kind: Kind) -> KindCache:
        one = self._kinds[kind]
        if not one.filled.is_set() and one.trouble is None:
            try:
                async with asyncio.timeout(FILL_PATIENCE_S):
                    await one.filled.wait()
            except TimeoutError:
                pass
        if (why := one.why_unknown(time.monotonic())) is not None:
            raise why
        return one.objects

    def note(self, kind: Kind, answer: Mapping[str, Any]) -> Held | None:
        """What the API server has answered to a write of ours; what is held of the object since."""
        one, meta = self._kinds.get(kind), answer["metadata"]
        if one is None or not one.filled.is_set() or not _selects(one.watched, answer):
            return None
        if version_of(meta) > one.version:
            # Of what is older the watch has told already, and what has become of it since.
            told = {"metadata": meta} if one.watched.metadata_only else answer
            self._tell(kind, one.objects.put(self._reader.held(kind, told)))
        return one.objects.get(meta.get("namespace") or "", meta["name"])

    def note_gone(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        one = self._kinds.get(kind)
        if one is not None:
            self._tell(kind, one.objects.remove_uid((namespace, name), uid))

    async def subscribe(self, subscriber: Subscriber) -> None:
        """Tells of all that is there, and from then on of each change, until `unsubscribe`."""
        self._subscribers.append(subscriber)
        for kind, one in self._kinds.items():
            for number, key in enumerate(list(one.objects.names())):
                held = one.objects.get(*key)
                if held is not None:
                    _hand_over(subscriber, kind, (None, held))
                if number % TOLD_A_TURN == TOLD_A_TURN - 1:
                    await asyncio.sleep(0)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)

    def troubles(self) -> dict[Kind, KubeError]:
        return {kind: one.trouble for kind, one in self._kinds.items() if one.trouble is not None}

    def watchfulness(self) -> Mapping[Kind, Watchfulness]:
        """How the watch of each kind does, and what is held of it, which need not be all that there is; any thread may
        read it."""
        return self._kinds

    def _tell(self, kind: Kind, changes: Sequence[Change]) -> None:
        for change in changes:
            for subscriber in self._subscribers:
                _hand_over(subscriber, kind, change)

    def _take(self, kind: Kind, news: News) -> None:
        one = self._kinds[kind]
        if isinstance(news, KubeError):
            if news.status == 404:
                # It is not served: what was there is gone with its kind, and nobody knows what comes back.
                one.filled.clear()
            changed, one.trouble = str(one.trouble) != str(news), news
        else:
            one.last_word_s = time.monotonic()
            changes = news(one)
            changed, one.trouble = one.trouble is not None, None
            self._tell(kind, changes)
        if changed:
            self.on_trouble()


def _hand_over(subscriber: Subscriber, kind: Kind, change: Change) -> None:
    """Whoever fails at one object hears of the others all the same: they are not his who made that one."""
    before, after = change
    try:
        subscriber(kind, before, after)
    except Exception:
        named = after or before
        log.exception("news of %s %s was not understood", kind.plural, named.key if named is not None else "")


def _document(held: Held) -> Mapping[str, Any]:
    assert not isinstance(held.value, Resource | Misread), "asked for by `resources`"
    return held.value


def _selects(watched: Watched, answer: Mapping[str, Any]) -> bool:
    """Selectors are names of labels."""
    return not watched.selector or watched.selector in (answer["metadata"].get("labels") or {})


def _nobody_listens() -> None:
    """Nobody has asked to be told."""
