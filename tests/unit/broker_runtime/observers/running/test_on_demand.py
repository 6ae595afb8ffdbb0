"""A broker imports what observers need on demand, and reports an import in progress or failed."""

import asyncio
import importlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker_runtime.clock import SystemClock
from broker_runtime.config import broker_settings
from broker_runtime.config.in_force.effective import EffectiveConfig, effective_config
from broker_runtime.exposition import render
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.node.metadata_before import MetadataNow
from broker_runtime.observers.running.on_demand import ObserversOnDemand
from broker_runtime.observers.surroundings import BrokerFacts
from tests.support.audit.limits import NoLimits

PLUGINS = "tests.support.requests.plugin_observers"


def configured(*class_names: str) -> EffectiveConfig:
    stored = {"observer.class.names": ",".join(f"{PLUGINS}.{name}" for name in class_names)} if class_names else {}
    return effective_config(broker_settings({"node.id": "1"}), stored, {})


class Bench:
    """A broker with only the interfaces for observers. It imports when `go_on` is set."""

    def __init__(self, go_on: bool = True) -> None:
        self.imports: list[str] = []
        self.problem: Exception | None = None
        self.go_on = threading.Event()
        if go_on:
            self.go_on.set()
        self.requests: object = None
        self.retries: list[Callable[[], None]] = []
        loop = asyncio.get_running_loop()
        surroundings = BrokerFacts(
            1,
            "cluster",
            "/nowhere",
            SystemClock(),
            loop.call_soon_threadsafe,
            self._call_later,
            tuple,
            tuple,
            lambda: MetadataNow(MetadataImage()),
            NoLimits(),
        )
        self.observers = ObserversOnDemand(surroundings, lambda _: None, self, self._import)

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> Any:
        assert delay_s == 60
        self.retries.append(call)

    def _import(self, module: str) -> Any:
        self.imports.append(module)
        assert self.go_on.wait(60)
        if self.problem is not None:
            raise self.problem
        return importlib.import_module(module)

    def observe_requests(self, requests: object, /) -> None:
        self.requests = requests

    def observe_connections(self, tell: object, /) -> None: ...

    def said(self) -> str | None:
        return self.observers.note_on("observer.class.names")

    def states(self) -> Mapping[str, str]:
        lines = render(list(self.observers.collect())).decode().splitlines()
        found = (
            line.split('"')
            for line in lines
            if line.startswith("sluicegate_observer_state{") and float(line.split()[-1]) == 1
        )
        return {parts[1]: parts[3] for parts in found}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.to_thread(lambda: None)


async def test_nothing_is_imported_without_observers() -> None:
    bench = Bench()
    await bench.observers.start(configured())
    bench.observers.configure(configured())
    assert (bench.imports, bench.said(), bench.states()) == ([], None, {})
    assert not bench.observers.loading
    await bench.observers.close()
    assert bench.imports == []


async def test_an_observer_configured_at_the_start_is_loaded_before_the_start_ends() -> None:
    bench = Bench()
    await bench.observers.start(configured("Silent"))
    assert bench.requests is not None
    assert bench.said() == "On this broker: Silent: Loaded"
    assert bench.states() == {"Silent": "Loaded"}
    await bench.observers.close()
    assert bench.requests is None


async def test_it_is_imported_once_and_the_last_configuration_counts() -> None:
    bench = Bench(go_on=False)
    bench.observers.configure(configured("Raising"))
    await bench.until(lambda: bool(bench.imports))
    assert bench.said() == "On this broker: Raising: Loading (it is being loaded)"
    assert bench.states() == {"Raising": "Loading"}
    assert bench.observers.loading
    bench.observers.configure(configured("Silent", "Sleeping"))
    assert bench.states() == {"Silent": "Loading", "Sleeping": "Loading"}
    bench.go_on.set()
    await bench.until(lambda: bench.states() == {"Silent": "Loaded", "Sleeping": "Loaded"})
    assert len(bench.imports) == 1
    assert not bench.observers.loading
    await bench.observers.close()


async def test_an_observer_removed_during_its_import_is_not_loaded() -> None:
    bench = Bench(go_on=False)
    bench.observers.configure(configured("Silent"))
    bench.observers.configure(configured())
    bench.go_on.set()
    await bench.observers.start(configured())
    assert (bench.said(), bench.states(), bench.requests) == (None, {}, None)
    await bench.observers.close()


async def test_closing_while_it_is_imported_observes_nothing() -> None:
    bench = Bench(go_on=False)
    bench.observers.configure(configured("Silent"))
    await bench.until(lambda: bool(bench.imports))
    await bench.observers.close()
    bench.go_on.set()
    bench.observers.configure(configured("Silent"))
    await asyncio.to_thread(lambda: None)
    assert (len(bench.imports), bench.requests) == (1, None)


async def test_a_failed_import_is_reported_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.problem = OSError(24, "Too many open files")
    await bench.observers.start(configured("Silent"))
    assert bench.said() == "On this broker: Silent: Failed (OSError: [Errno 24] Too many open files)"
    assert bench.observers.note_on("observer.Silent.class") == bench.said()
    assert bench.observers.note_on("log.dirs") is None
    assert bench.states() == {"Silent": "Failed"}
    assert not bench.observers.loading, "clients are let in without them"
    assert "observers cannot be loaded; retrying in 60 s" in caplog.text
    bench.problem = None
    (retry,) = bench.retries
    retry()
    await bench.until(lambda: bench.states() == {"Silent": "Loaded"})
    await bench.observers.close()
    retry()
    assert len(bench.imports) == 2


async def test_a_retry_after_the_observers_were_removed_imports_nothing() -> None:
    bench = Bench()
    bench.problem = ImportError("half a file")
    await bench.observers.start(configured("Silent"))
    bench.observers.configure(configured())
    assert bench.states() == {}
    bench.retries[0]()
    assert len(bench.imports) == 1
