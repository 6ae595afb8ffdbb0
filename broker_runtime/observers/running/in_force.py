"""The configured observers of this broker: loaded, changed and closed while it runs. Shell.

An observer is loaded, configured and closed in a thread of its own, so that no client waits for it. A call that hangs
is abandoned with its thread, and no other call of this observer begins before it returns. An observer that cannot be
loaded is reported, and retried once a minute.
"""

import asyncio
import logging
import resource
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.exposition import MetricFamily, render
from broker_runtime.observers.base import ConfigurableObserver
from broker_runtime.observers.running.budget import Budget, ThreadUsage
from broker_runtime.observers.running.hub import ObserverHub
from broker_runtime.observers.running.in_service import ObserverInService, Readings, first_line
from broker_runtime.observers.running.loading import BUILT_IN, ObserverLoadError, ObserverSpec, load, wanted_observers
from broker_runtime.observers.running.metrics import observer_families
from broker_runtime.observers.running.states import ObserverState, States
from broker_runtime.observers.running.threads import CallFailedError, LeftBehindError, ObserverThreads
from broker_runtime.observers.surroundings import BrokerFacts, ObservedParts, TopicName

log = logging.getLogger(__name__)

_RETRY_S = 60.0
_LOAD, _RECONFIGURE, _CLOSE = "its import or `configure`", "its reconfigure", "its close"
"""The calls of an observer that run in a thread, as subjects of sentences."""
_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""The scope of the measured usage: the thread, or the process if the system does not report threads."""


class ObserversInForce:
    """The loaded observers, and those being changed. Nothing is durable: they follow `configure`.

    `states` reports for each configured observer whether it is loaded, and if not, why.
    """

    def __init__(self, surroundings: BrokerFacts, topic_name: TopicName, parts: ObservedParts) -> None:
        clock = surroundings.clock
        self._surroundings = surroundings
        self._now = clock.monotonic
        self._reads = Readings(clock.monotonic, _thread_usage)
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._hub = ObserverHub(topic_name, self._now)
        self._wanted: dict[str, ObserverSpec] = {}
        self._close_timeout_s = self._load_timeout_s = 0.0
        self._loaded: dict[str, tuple[ObserverSpec, ObserverInService]] = {}
        self._problems: dict[str, str] = {}
        self._changing: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._threads = ObserverThreads(self._loop)
        self._closed = False

    async def settle(self) -> None:
        """Wait until every change in progress has succeeded, or failed within its time limit."""
        if self._changing:
            await asyncio.wait(self._changing.values())

    def configure(self, effective: EffectiveConfig) -> None:
        config = effective.config
        self._load_timeout_s = config.sluicegate_observer_load_timeout_ms / 1000
        self._close_timeout_s = config.sluicegate_observer_close_timeout_ms / 1000
        wanted, bad = wanted_observers(config, effective.values)
        for name, problem in bad.items():
            self._failed(name, problem)
        for name in self._problems.keys() - bad.keys():
            loaded = self._loaded.get(name)
            if name not in wanted or (loaded is not None and loaded[0] == wanted[name]):
                del self._problems[name]
        # A loaded observer whose new settings are invalid keeps its old settings.
        kept = {name: spec for name, (spec, _) in self._loaded.items() if name in bad}
        before, self._wanted = self._wanted, {**wanted, **kept}
        for name in before.keys() | self._wanted.keys():
            if before.get(name) != self._wanted.get(name):
                self._change(name)

    def _change(self, name: str) -> None:
        timer = self._retries.pop(name, None)
        if timer is not None:
            timer.cancel()
        if name not in self._changing and not self._closed:
            self._changing[name] = self._loop.create_task(self._carry_out(name), name=f"observer {name}")

    async def _carry_out(self, name: str) -> None:
        try:
            await self._bring_about(name)
        except Exception:
            log.exception("observer %s cannot be changed", name)
        finally:
            # Here and not in a done callback: a change made between the end of the task and the callback would be lost.
            del self._changing[name]

    async def _bring_about(self, name: str) -> None:
        """Change the observer until it matches the configuration, however often that changes meanwhile."""
        tried: ObserverSpec | None = None
        while True:
            wanted, there = self._wanted.get(name), self._loaded.get(name)
            if wanted is None:
                if there is None:
                    return
                self._serve(name, None)
                await self._retire(there[1])
            elif wanted is tried or (there is not None and there[0] == wanted):
                return
            else:
                tried = wanted
                await self._load(wanted, None if there is None else there[1])

    async def _load(self, spec: ObserverSpec, old: ObserverInService | None) -> None:
        try:
            instance = await self._instance(spec, old)
            service = self._service(spec, instance, old)
        except (CallFailedError, LeftBehindError) as error:
            self._failed(spec.name, str(error))
            return
        except Exception as error:  # noqa: BLE001 - the observer's code raises anything
            self._failed(spec.name, first_line(error))
            return
        self._problems.pop(spec.name, None)
        if old is not None and old.instance is instance:
            service.figures = old.figures
        self._serve(spec.name, (spec, service))
        log.info("observer %s is loaded (%s)", spec.name, spec.class_name)
        if old is not None and old.instance is not instance:
            await self._retire(old)

    def _service(
        self, spec: ObserverSpec, instance: ConfigurableObserver, old: ObserverInService | None
    ) -> ObserverInService:
        warn = partial(log.warning, "%s")
        try:
            return ObserverInService(spec.name, instance, spec.wanted, Budget(spec.budget_s), self._reads, warn)
        except BaseException as error:
            # Reading its attributes runs the observer's code, too, here on the event loop.
            if old is None or old.instance is not instance:
                self._close_later(spec.name, instance)
            raise ObserverLoadError(f"its attributes cannot be read: {first_line(error)}") from error

    async def _instance(self, spec: ObserverSpec, old: ObserverInService | None) -> ConfigurableObserver:
        same_class = old is not None and self._loaded[spec.name][0].class_name == spec.class_name
        if old is not None and same_class and self._loaded[spec.name][0].config == spec.config:
            return old.instance
        self._threads.check(spec.name, is_built_in=spec.class_name in BUILT_IN.values())
        if old is not None and same_class and old.reconfigure is not None:
            again = partial(old.reconfigure, spec.config)
            await self._threads.run(again, spec.name, _RECONFIGURE, self._load_timeout_s)
            return old.instance
        make = partial(load, spec, self._surroundings)
        too_late = partial(self._close_later, spec.name)
        return await self._threads.run(make, spec.name, _LOAD, self._load_timeout_s, too_late)

    def _failed(self, name: str, problem: str) -> None:
        self._problems[name] = problem
        log.error("observer %s cannot be loaded; retrying in %g s: %s", name, _RETRY_S, problem)
        if name not in self._retries and not self._closed:
            self._retries[name] = self._loop.call_later(_RETRY_S, self._change, name)

    def _serve(self, name: str, loaded: tuple[ObserverSpec, ObserverInService] | None) -> None:
        if loaded is None:
            self._loaded.pop(name, None)
        else:
            self._loaded[name] = loaded
        services = [service for _, service in self._loaded.values()]
        self._hub.serve(services)
        self._parts.observe_requests(self._hub if self._hub.wants_requests else None)
        self._parts.observe_connections(self._hub.connection_notice if self._hub.wants_connections else None)

    async def _retire(self, service: ObserverInService) -> None:
        service.retire()
        await self._close(service.name, service.instance)

    async def _close(self, name: str, instance: ConfigurableObserver) -> None:
        """Close the observer, or abandon the call if that takes too long."""
        timeout_s = self._close_timeout_s
        try:
            await self._threads.run(lambda: instance.close(timeout_s), name, _CLOSE, timeout_s * 1.5)
        except LeftBehindError:
            log.warning("observer %s has not closed within %g s and is abandoned", name, timeout_s)
        except CallFailedError as error:
            log.warning("observer %s raised an exception in close: %s", name, error)
        else:
            log.info("observer %s is closed", name)

    def _close_later(self, name: str, instance: ConfigurableObserver) -> None:
        """Close an observer that is configured and will not come into service, for example because it came too late."""
        task = self._loop.create_task(self._close(name, instance), name=f"observer {name}, not in service")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @property
    def changing(self) -> bool:
        """Return whether an observer is being loaded, reconfigured or closed."""
        return bool(self._changing)

    @property
    def left_behind(self) -> int:
        """Return the number of calls of observers that have not returned in time, and still have not."""
        return self._threads.left_behind

    @property
    def states(self) -> States:
        """Return the state of each observer by its name, with the reason if it is not called."""
        found: dict[str, tuple[ObserverState, str]] = {}
        now_s = self._now()
        for name in sorted(self._wanted.keys() | self._loaded.keys() | self._problems.keys()):
            problem = self._problems.get(name)
            if name in self._changing or (problem is None and name not in self._loaded):
                found[name] = ObserverState.LOADING, "it is being loaded"
            elif problem is not None:
                goes_on = "; it continues with its previous configuration" if name in self._loaded else ""
                found[name] = ObserverState.FAILED, problem + goes_on
            else:
                found[name] = _state_of(self._loaded[name][1], now_s)
        return found

    def collect(self) -> Iterator[MetricFamily]:
        services = {name: service for name, (_, service) in self._loaded.items()}
        yield from observer_families(self.states, services, self.left_behind)
        for service in services.values():
            if service.collect is not None:
                families: list[MetricFamily] = []
                service.call(_collect, service.collect, families)
                yield from families

    async def close(self) -> None:
        """Stop observing, and close all observers concurrently."""
        self._closed = True
        for timer in self._retries.values():
            timer.cancel()
        for task in list(self._changing.values()):
            task.cancel()
        services = [service for _, service in self._loaded.values()]
        for name in list(self._loaded):
            self._serve(name, None)
        await asyncio.gather(*map(self._retire, services))


def _collect(collect: Callable[[], Iterable[MetricFamily]], found: list[MetricFamily]) -> None:
    """Collect an observer's metrics. Invalid ones raise here, not when the broker's own metrics are rendered."""
    families = list(collect())
    render(families)
    found += families


def _thread_usage() -> ThreadUsage:
    used = resource.getrusage(_THREAD)
    return ThreadUsage(used.ru_utime + used.ru_stime, used.ru_nvcsw)


def _state_of(service: ObserverInService, now_s: float) -> tuple[ObserverState, str]:
    figures, lost = service.figures, service.dropped
    left_s = service.budget.resumes_s - now_s
    remarks = []
    if left_s > 0:
        remarks.append(f"its calls take longer than its budget; it resumes in {left_s:.0f} s")
    if figures.suspensions:
        remarks.append(f"{figures.suspensions} suspensions, {figures.skipped} calls skipped")
    if figures.last_error is not None:
        remarks.append(f"{figures.errors} errors, the last: {figures.last_error}")
    if lost:
        remarks.append(f"{lost} items dropped because its own queue was full")
    if remark := service.remark:
        remarks.append(remark)
    return ObserverState.SUSPENDED if left_s > 0 else ObserverState.LOADED, "; ".join(remarks)
