"""The operator as kopf runs it: kopf lists, watches, and calls these handlers; they feed the cache.

- `on.startup` sets what differs from kopf's defaults.
- `on.login` gives kopf its HTTP session, which reports to the cache what no handler receives
  (`kube/cache/reflector.py`).
- `on.event` stores each object of each kind in WATCHED (`kube/cache/watched.py`). The cache calls its subscribers, and
  `handlers/watch.py` marks the cluster's key in the work queues that the change concerns (`handlers/term.py`).
- `on.cleanup` marks every kind in the cache as unknown: kopf has stopped.
- `on.validate` returns warnings about an object that is applied, if admission is on
  (`handlers/admission/admission.py`).

There is no on.create, on.update, on.delete, timer or daemon: kopf would write finalizers and annotations into users'
objects, and `kubectl delete` would hang while the operator is down (decision 49). The operator itself puts a finalizer
on one kind: a Topic whose deletionPolicy is Delete (`engine/leaving_topics.py`).

`__main__.py` starts kopf when this process leads for the first time, or at its start if admission is on. A second
KopfOperator in the process feeds the cache of pods that quotas select (`handlers/reconcilers/pods_of_quotas.py`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, cast

import aiohttp
import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from sluicegate_operator.handlers.admission.admission import CHECK, CHECK_ANSWER, WARNINGS, Admission
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.feed import Feed
from sluicegate_operator.kube.cache.reflector import ReflectorSession, pause_s
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.errors import KubeUnavailableError
from sluicegate_operator.kube.http.kinds import BROKER_REGISTRATION, USER_KINDS, Kind
from sluicegate_operator.kube.http.transport import Transport

log = logging.getLogger(__name__)

KOPF = "1.45.2"
"""The version of kopf that Sluicegate is tested with: the cache relies on how kopf lists and watches."""
PAGE = 200
AT_ONCE = kopf.ErrorsMode.PERMANENT
"""The error mode of handlers: an error ends kopf, which is then restarted. By default, kopf retries after a minute."""
NEVER_S = 365 * 86400.0
STOP_TIMEOUT_S = 10.0
SETTLED_S = 60.0
"""Seconds: if kopf ran for this long before it ended, the first restart pause applies again."""


class KopfOperator:
    """Runs kopf for one cache, on the event loop that calls `start`, until `stop`.

    kopf is started by spawn_tasks, because kopf.operator cancels every younger task of its event loop when it ends. If
    kopf ends unexpectedly, it is started again and lists each kind.
    """

    def __init__(
        self,
        transport: Callable[[], Transport],
        namespace: str | None,
        on_begun: Callable[[], None],
        cache: Cache,
        admission: Admission | None = None,
    ) -> None:
        """`transport` makes connections to the API server.

        `admission` is the webhook that kopf serves, if there is one.

        `namespace` is the only one that is watched; None means all. kopf installs handlers for SIGTERM and SIGINT when
        it starts; then `on_begun` is called, which restores the process's own handlers.
        """
        self._transport = transport
        self._namespace = namespace
        self._on_begun = on_begun
        self._cache = cache
        self._admission = admission
        self._feed = cache.feed
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start kopf, unless it was started before."""
        if self._running is None:
            # kopf logs a line for each event of each object.
            logging.getLogger("kopf").setLevel(logging.WARNING)
            self._running = asyncio.create_task(self._run(), name="kopf")

    def stop(self) -> None:
        """Ask kopf to end, see `stopped`. From now on the cache reports no errors, because this end is intended."""
        self._cache.on_error = lambda: None
        if self._running is not None:
            self._running.cancel()

    async def stopped(self) -> None:
        """Return when kopf has ended and its connections are closed."""
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _run(self) -> None:
        if warning := kopf_warning():
            log.warning("%s", warning)
        failures = 0
        while True:
            began_s = time.monotonic()
            try:
                await self._live()
            except Exception as error:
                failures = 1 if time.monotonic() - began_s > SETTLED_S else failures + 1
                log.exception("kopf has ended and is restarted")
                ended = KubeUnavailableError(f"kopf has ended and is restarted: {error!r}")
                for kind in self._feed.informers:
                    self._feed.fail(kind, ended)
                await asyncio.sleep(pause_s(failures))

    async def _live(self) -> None:
        """Run kopf once. Raises the error that ended it."""
        session = ReflectorSession(self._transport(), self._feed, self._namespace)
        tasks = await kopf.spawn_tasks(
            registry=register(self._feed, session, self._admission),
            # The Lease decides which process acts. kopf's peering pauses both of two equal operators.
            standalone=True,
            clusterwide=self._namespace is None,
            namespaces=[self._namespace] if self._namespace else [],
            # By default kopf looks up the user's name, and the user of a container need not have one.
            identity=cast(Any, "sluicegate"),
            memories=_NoMemories(),
        )
        self._on_begun()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            raise RuntimeError(f"{', '.join(task.get_name() for task in done)} of kopf has ended")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
            await session.close()


def kopf_warning() -> str:
    """Return a sentence for the log if kopf has another version than the tested one; else an empty text."""
    found = version("kopf")
    if found == KOPF:
        return ""
    return f"kopf {found} is installed, but Sluicegate is tested with kopf {KOPF}: install kopf=={KOPF}"


def register(feed: Feed, session: ReflectorSession, admission: Admission | None = None) -> kopf.OperatorRegistry:
    """Return kopf's handlers for the kinds of a cache. `session` is kopf's HTTP session to the API server."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry, errors=AT_ONCE)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        _configure(settings, [one.watched for one in feed.informers.values()])
        settings.admission.server = admission.server if admission is not None else None

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # kopf builds URLs from `server`; the session uses only their paths, because it has its own connection.
        return kopf.AiohttpSession(server="https://kubernetes", aiohttp_session=cast(aiohttp.ClientSession, session))

    kinds = {_selector(kind): kind for kind in feed.informers}

    # One handler for all kinds: kopf compares each event with each handler.
    @kopf.on.event(lambda resource: tuple(resource) in kinds, registry=registry)
    async def on_event(type: str | None, event: Mapping[str, Any], resource: kopf.Resource, **_: Any) -> None:
        group, api_version, plural = resource
        kind = kinds[group, api_version, plural]
        try:
            feed.apply(kind, type, event["object"])
        except Exception as error:
            # The cache lacks an object, so plans must not use it.
            log.exception("a %s could not be read, so all %s are listed again", kind.kind, kind.plural)
            feed.lose(kind, KubeUnavailableError(f"a {kind.kind} could not be read: {error!r}"))
            session.relist(kind)

    @kopf.on.cleanup(registry=registry)
    async def stop_trusting(**_: Any) -> None:
        for kind in feed.informers:
            feed.fail(kind, KubeUnavailableError(f"kopf has stopped: {kind.plural} are not watched"))

    if admission is not None:
        _validate(registry, admission)
    return registry


def _validate(registry: kopf.OperatorRegistry, admission: Admission) -> None:
    """Register the webhook's handlers. Each id is the path that the chart's ValidatingWebhookConfiguration names."""
    written, checked = {_selector(kind) for kind in USER_KINDS}, _selector(BROKER_REGISTRATION)

    @kopf.on.validate(lambda resource: tuple(resource) in written, id=WARNINGS, registry=registry)
    async def warn(body: kopf.Body, warnings: list[str], **more: Any) -> None:
        old: kopf.Body | None = more["old"]
        warnings += await admission.warner.warnings(dict(body), dict(old) if old is not None else None)

    @kopf.on.validate(lambda resource: tuple(resource) == checked, id=CHECK, registry=registry)
    async def check(warnings: list[str], **_: Any) -> None:
        warnings.append(CHECK_ANSWER)


def _configure(settings: kopf.OperatorSettings, watched: list[Watched]) -> None:
    """Set everything that differs from kopf's defaults, with the reason."""
    # A page bounds the memory of a list, and the time for which the event loop parses it.
    settings.watching.chunk_size = PAGE
    # The session ends a silent watch, by the period of its kind. kopf's own limit may cancel its watcher while that
    # hands on an event, which would be lost.
    settings.watching.inactivity_timeout = NEVER_S
    # The session pauses and sends a request again itself, so that one kind's error does not end kopf.
    settings.networking.error_backoffs = []
    settings.watching.reconnect_backoff = 0.0
    # A worker keeps its object's last event for this time. With 0, kopf's workers spin on Python 3.11.
    settings.queueing.idle_timeout = 0.05
    # The kinds are in the table: watching CustomResourceDefinitions would need a right that the operator lacks.
    settings.scanning.disabled = True
    # kube/client/events.py posts Events, and counts repeated ones in one object.
    settings.posting.enabled = False
    # kopf would kill this thread ten minutes after kopf stopped; the operator continues, and starts kopf again.
    settings.process.ultimate_exiting_timeout = None
    # on.event has no state, so nothing is computed for it or written into users' objects.
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    for one in watched:
        if one.selector:
            settings.watching.label_selectors[_selector(one.kind)] = one.selector


def _selector(kind: Kind) -> tuple[str, str, str]:
    """Return group, version and plural, by which kopf selects resources."""
    group, _, api_version = kind.api_version.rpartition("/")
    return group, api_version, kind.plural


class _NoMemories(ResourceMemories):
    """Keeps nothing: kopf would store 0.8 kB for each object, for daemons, indices and memos, which are not used."""

    async def recall(self, raw_body: Any, **options: Any) -> ResourceMemory:
        return await super().recall(raw_body, **{**options, "ephemeral": True})


class _NoDiffBase(kopf.DiffBaseStorage):
    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        """Do nothing."""


class _NoProgress(kopf.ProgressStorage):
    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        """Do nothing."""

    def purge(self, **_: Any) -> None:
        """Do nothing."""

    def touch(self, **_: Any) -> None:
        """Do nothing."""

    def clear(self, *, essence: Any) -> Any:
        return essence
