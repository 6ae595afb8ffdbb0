"""`python -m sluicegate_operator`: waits for the Lease, leads while it is held, stops on SIGTERM.

If the Lease is lost (another operator has it, or the API server was unreachable for too long), the term ends, not the
process. The process waits for the Lease again, so it needs no restart when the API server recovers. With
--release-topics it releases Topics while it holds the Lease, and ends.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from sluicegate_operator.handlers.admission.admission import Admission
from sluicegate_operator.handlers.kopf_operator import KopfOperator
from sluicegate_operator.handlers.process.cache_metrics import CacheMetrics
from sluicegate_operator.handlers.process.garbage import GarbageCollector
from sluicegate_operator.handlers.process.health import Liveness, Readiness
from sluicegate_operator.handlers.process.loop_iterations import TimedSelector, loop_on
from sluicegate_operator.handlers.process.telemetry import (
    LEADING,
    LOOP_LONG_ITERATIONS,
    LOOP_LONGEST_ITERATION,
    LOOP_MOST_WORKED,
    LOOP_SILENT,
    READY,
    REGISTRY,
)
from sluicegate_operator.handlers.process.telemetry_server import TelemetryServer
from sluicegate_operator.handlers.reconcilers.pods_of_quotas import MakeFeeding
from sluicegate_operator.handlers.reconcilers.released_topics import release_topics
from sluicegate_operator.handlers.term import lead
from sluicegate_operator.handlers.watch_troubles import report_troubles
from sluicegate_operator.kube.cache.watched import WATCHED
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.transport import AiohttpTransport
from sluicegate_operator.kube.lease.lease import LeaseElector
from sluicegate_operator.kube.lease.lease_thread import LeaseThread
from sluicegate_operator.settings import Settings, SettingsError, read_settings

log = logging.getLogger("sluicegate_operator")

_BEAT_S = 5.0
LEASE_THREADS = 2
"""Number of threads for the Lease. With two, a renewal is sent even if the previous one still waits for its answer."""
RELEASE_TIMEOUT_S = 120.0
"""Time limit in seconds for releasing the Lease when the operator stops.

The operator has 30 s to stop, and the Lease of a crashed one lasts 15 s.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # urllib3 would log each connection that exceeds the pool's size.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    try:
        settings = read_settings(os.environ, options.namespace, options.kubeconfig, options.metrics_listener)
        lease_client = KubeClient(settings.kubeconfig, timeout_s=settings.request_timeout_s, threads_max=LEASE_THREADS)
    except (SettingsError, KubeError) as error:
        print(f"settings: {error}", file=sys.stderr)  # noqa: T201
        return 2
    work = _release(lease_client, settings) if options.release_topics else _run(lease_client, settings)
    iterations = TimedSelector()
    LOOP_LONGEST_ITERATION.set_function(lambda: iterations.longest_s)
    LOOP_MOST_WORKED.set_function(lambda: iterations.most_worked_s)
    LOOP_LONG_ITERATIONS.set_function(lambda: iterations.long)
    garbage = GarbageCollector()
    garbage.start()
    try:
        with asyncio.Runner(loop_factory=loop_on(iterations)) as runner:
            return runner.run(work)
    finally:
        garbage.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "sluicegate_operator", description="Run the operator, which manages brokers and their quotas."
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--namespace", help="watch only this namespace")
    scope.add_argument("--all-namespaces", action="store_true", help="watch every namespace (the default)")
    parser.add_argument("--kubeconfig", help="a kubeconfig file; by default the service account of the pod")
    parser.add_argument(
        "--metrics-listener", metavar="HOST:PORT", help="address for /metrics, /healthz and /readyz; by default none"
    )
    parser.add_argument(
        "--release-topics",
        action="store_true",
        help="remove the operator's finalizer from all Topics and exit; for uninstalling the operator",
    )
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    return parser


def _elector(lease_client: KubeClient, settings: Settings, liveness: Liveness) -> LeaseElector:
    return LeaseElector(
        lease_client,
        (settings.lease_namespace, settings.lease_name),
        settings.identity,
        duration_s=settings.lease_s,
        renew_every_s=settings.lease_s / 3,
        alive=lambda: liveness.alive,
    )


async def _release(lease_client: KubeClient, settings: Settings) -> int:
    """Release all Topics, while no other operator leads: a leading operator would add the finalizers again."""
    liveness = Liveness()
    beating = asyncio.create_task(_beat(liveness))
    with LeaseThread(_elector(lease_client, settings, liveness)) as lease:
        kube = KubeClient(settings.kubeconfig, timeout_s=settings.request_timeout_s, may_write=lease.held)
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await lease.acquire()
            try:
                log.info(
                    "%d Topics and KafkaUsers had the operator's finalizer",
                    await release_topics(kube, settings.namespace),
                )
            finally:
                await lease.release()
        except TimeoutError:
            lease_name = f"{settings.lease_namespace}/{settings.lease_name}"
            log.error("an operator still holds the Lease %s: delete the operator's Deployment first", lease_name)
            return 1
        except KubeError as error:
            log.error("some Topics still have the operator's finalizer; run the command again: %s", error)
            return 1
        finally:
            beating.cancel()
            kube.close()
            lease_client.close()
    return 0


async def _run(lease_client: KubeClient, settings: Settings) -> int:
    stop = asyncio.Event()
    liveness, readiness = Liveness(), Readiness()
    with LeaseThread(_elector(lease_client, settings, liveness)) as lease:
        kube = KubeClient(
            settings.kubeconfig,
            timeout_s=settings.request_timeout_s,
            may_write=lease.held,
            watched=WATCHED,
        )
        transport = partial(AiohttpTransport, kube.server)
        admission = Admission(kube, settings, settings.admission) if settings.admission is not None else None
        feed = partial(KopfOperator, transport, settings.namespace, lambda: _stop_on_signals(stop))
        kopf = feed(kube.cache, admission)
        report_troubles(kube.cache, readiness)
        REGISTRY.register(CacheMetrics(kube.cache))
        telemetry = _telemetry(settings, liveness, readiness)
        background = [asyncio.create_task(_beat(liveness))]
        _stop_on_signals(stop)
        if admission is not None:
            # A standby that waits for the Lease answers API servers too, from its own cache.
            REGISTRY.register(admission.figures)
            kopf.start()
            background.append(asyncio.create_task(admission.run()))
        try:
            with telemetry:
                while not stop.is_set():
                    await _term(kube, settings, lease, stop, kopf, feed, admission)
        finally:
            for task in background:
                task.cancel()
            kopf.stop()
            await kopf.stopped()
            kube.close()
            lease_client.close()
    return 0


def _telemetry(
    settings: Settings, liveness: Liveness, readiness: Readiness
) -> AbstractContextManager[TelemetryServer | None]:
    if settings.metrics is None:
        return nullcontext()
    LOOP_SILENT.set_function(lambda: liveness.silent_s)
    READY.set_function(lambda: not readiness.reasons)
    return TelemetryServer(*settings.metrics, liveness, readiness, connections_max=settings.metrics_connections)


async def _term(
    kube: KubeClient,
    settings: Settings,
    lease: LeaseThread,
    stop: asyncio.Event,
    kopf: KopfOperator,
    feed: MakeFeeding,
    admission: Admission | None,
) -> None:
    """Wait for the Lease, lead until it is lost or `stop` is set, release it."""
    log.info("%s waits for the Lease %s/%s", settings.identity, settings.lease_namespace, settings.lease_name)
    if not await _first(lease.acquire(), stop):
        return
    log.info("%s leads", settings.identity)
    LEADING.set(1)
    over = asyncio.Event()
    lost = asyncio.create_task(lease.lost())
    stopping = asyncio.create_task(stop.wait())
    for ender in (lost, stopping):
        ender.add_done_callback(lambda _: over.set())
    # kopf runs from the first term on, also between two terms.
    kopf.start()
    keeping = asyncio.create_task(admission.lead()) if admission is not None else None
    try:
        await lead(kube, settings, over, lease.held, feed)
    finally:
        LEADING.set(0)
        if keeping is not None:
            keeping.cancel()
        if lost.done():
            log.warning("%s has lost the Lease and waits to acquire it again", settings.identity)
        for task in (lost, stopping):
            task.cancel()
        await asyncio.gather(lost, stopping, return_exceptions=True)
        await lease.release()


async def _first(work: object, stop: asyncio.Event) -> bool:
    """Return whether `work` was done before `stop` was set."""
    doing = asyncio.ensure_future(work)  # type: ignore[call-overload]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if doing.done():
        doing.result()
        return True
    doing.cancel()
    return False


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _beat(liveness: Liveness) -> None:
    while True:
        liveness.beat()
        await asyncio.sleep(_BEAT_S)


if __name__ == "__main__":
    sys.exit(main())
