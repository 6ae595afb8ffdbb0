"""kopf on a thread and an event loop of its own, begun again whenever it has ended.

When kopf ends it cancels every younger task of its loop, and it ends when a kind that it watches is not served (any
more). So it is given the kinds that are served, a loop where nobody else works, and another life when one of them goes
or a missing one comes. What happened in between is seen by the listing that each life begins with.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, cast

import kopf

from sluicegate_operator.engine.work_queue import Retry
from sluicegate_operator.handlers.health import Readiness
from sluicegate_operator.handlers.watch import Watch
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.discovery import served_kinds
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.kinds import BROKER_REGISTRATION, CUSTOM, Kind
from sluicegate_operator.settings import Settings

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""For kinds that are not served yet."""
LOOK_AGAIN_S = 10.0
"""Whether all kinds are still served."""
SILENCE_MAX_S = 10.0
"""A watch is asked again by then, from where it was: it may have been cut off without a word."""
WATCH_S = 8
"""The API server ends a watch by then; it says before how far the watch has come."""
NEVER_S = 365 * 86400.0
STOP_TIMEOUT_S = 10.0
AGAIN = Retry(0.5, 10.0)
NEEDED = (*CUSTOM, BROKER_REGISTRATION)
_READINESS = "watch"


class KopfThread:
    """`watch` takes the events, on the loop that `run` is awaited on."""

    def __init__(self, kube: KubeClient, settings: Settings, watch: Watch, readiness: Readiness) -> None:
        self._kube = kube
        self._settings = settings
        self._watch = watch
        self._readiness = readiness

    async def run(self) -> None:
        """Until cancelled."""
        lives = 0
        try:
            while True:
                served = await self._served()
                why = await self._live(served)
                lives = lives + 1 if why else 0
                if why:
                    self._readiness.note(_READINESS, f"the watch has ended and is begun again: {why}")
                    await asyncio.sleep(AGAIN.delay_s(lives, 1.0))
        finally:
            self._readiness.note(_READINESS, "")

    async def _served(self) -> frozenset[Kind]:
        """Waits for an answer, and until any kind is served."""
        while True:
            try:
                served = await served_kinds(self._kube, NEEDED)
            except KubeError as error:
                self._say(f"the API server does not say which kinds it serves: {error}")
            else:
                missing = [kind.crd for kind in NEEDED if kind not in served]
                self._say(f"waits for CRDs that are not there, apply crds/: {', '.join(missing)}" if missing else "")
                if any(kind in served for kind in CUSTOM):
                    return served
            await asyncio.sleep(LOOK_EVERY_S)

    def _say(self, reason: str) -> None:
        if reason and reason not in self._readiness.reasons:
            log.warning("%s", reason)
        self._readiness.note(_READINESS, reason)

    async def _live(self, served: frozenset[Kind]) -> str:
        """One life of kopf; why it ended, empty when it was ended since other kinds are served now."""
        registry = kopf.OperatorRegistry()
        kopf.on.startup(registry=registry)(configure)
        kopf.on.login(registry=registry)(login)
        self._watch.register(registry, [kind for kind in CUSTOM if kind in served])
        stop = threading.Event()
        ended = in_thread("kopf", lambda: run_kopf(registry, self._settings, stop))
        changed = asyncio.ensure_future(self._others_served(served))
        try:
            await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return ""
            error = ended.exception()
            log.warning("the watch has ended, and is begun again: %s", error)
            return str(error or "kopf returned")
        finally:
            stop.set()
            changed.cancel()
            await asyncio.wait({ended}, timeout=STOP_TIMEOUT_S)
            if ended.done() and (error := ended.exception()) is not None:
                log.debug("kopf ended with %r", error)

    async def _others_served(self, served: frozenset[Kind]) -> None:
        """Until other kinds are served than `served`."""
        all_there = served.issuperset(NEEDED)
        while True:
            await asyncio.sleep(LOOK_AGAIN_S if all_there else LOOK_EVERY_S)
            try:
                if await served_kinds(self._kube, NEEDED) != served:
                    return
            except KubeError as error:
                log.info("the API server does not say which kinds it serves: %s", error)


async def run_kopf(registry: kopf.OperatorRegistry, settings: Settings, stop: threading.Event) -> None:
    """Until `stop` is set; raises what ends kopf."""
    try:
        await kopf.operator(
            registry=registry,
            standalone=True,
            clusterwide=settings.namespace is None,
            namespaces=[settings.namespace] if settings.namespace else [],
            # Without it kopf asks for the name of the user, and a container's uid need not have one.
            identity=cast(Any, settings.identity),
            stop_flag=stop,
        )
    finally:
        # A thread of kopf's loop waits for it, and the loop does not close before.
        stop.set()


def in_thread(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Future[None]:
    """Runs `work` on an event loop in a thread of its own, which the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if ended.cancelled():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            asyncio.run(work())
        except BaseException as raised:  # noqa: BLE001 - whoever waits for the thread gets it
            error = raised
        loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended


async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    """Limits on everything that kopf leaves open; the Lease decides who acts, not kopf's peering."""
    settings.peering.standalone = True
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = SILENCE_MAX_S
    settings.watching.connect_timeout = 5
    # kopf's own limit on silence must never be met: it cancels the watch also while an event is being handed on, and
    # then that kind is not watched any more, without a word. The client's ends nothing but a read.
    settings.watching.inactivity_timeout = NEVER_S
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.execution.default_backoff = 5
    settings.queueing.worker_limit = 100
    settings.posting.enabled = False
    settings.scanning.disabled = True


def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
