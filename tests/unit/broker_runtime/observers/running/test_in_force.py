"""Observers that are loaded, changed and removed while requests continue, with real threads and no sockets."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pytest

from broker_runtime.config import broker_settings
from broker_runtime.config.in_force.effective import EffectiveConfig, effective_config
from broker_runtime.exposition import MetricFamily, render
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.node.metadata_before import MetadataNow
from broker_runtime.observers.running import in_force
from broker_runtime.observers.running.in_force import ObserversInForce
from broker_runtime.observers.running.states import ObserverState
from broker_runtime.observers.surroundings import BrokerFacts
from tests.support.audit.limits import NoLimits
from tests.unit.broker_runtime.observers.running.test_hub import ALL, LEADER, Scene

HERE = __name__


class Keeping:
    """Keeps the calls of all of its class: brokers create observers themselves."""

    told: ClassVar[list[str]]

    def configure(self, config: Mapping[str, str]) -> None:
        self.word = config.get("word", "")

    def record_request(self, *_: object) -> None:
        self.told.append("request")

    def record_response(self, *_: object) -> None:
        self.told.append("response")

    def close(self, timeout_s: float) -> None:
        self.told.append("closed" + self.word)


class First(Keeping):
    told: ClassVar[list[str]] = []


class Second(Keeping):
    told: ClassVar[list[str]] = []


class Late(Keeping):
    told: ClassVar[list[str]] = []
    go_on = threading.Event()
    begun = 0

    def configure(self, config: Mapping[str, str]) -> None:
        type(self).begun += 1
        super().configure(config)
        assert self.go_on.wait(60)


class Clinging(Keeping):
    told: ClassVar[list[str]] = []
    go_on = threading.Event()

    def close(self, timeout_s: float) -> None:
        assert self.go_on.wait(60)
        super().close(timeout_s)


class Picky(Keeping):
    told: ClassVar[list[str]] = []

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        if self.word != "please":
            raise ValueError(f"the word must be please, and is {self.word!r}\nand so on")

    def close(self, timeout_s: float) -> None:
        super().close(timeout_s)
        raise SystemExit


class Changeable(Keeping):
    told: ClassVar[list[str]] = []

    def reconfigure(self, config: Mapping[str, str]) -> None:
        if config["word"] == "no":
            raise ValueError("no is no word")
        self.word = config["word"]


class Mismeasured(Keeping):
    told: ClassVar[list[str]] = []

    def collect(self) -> Iterable[MetricFamily]:
        family = MetricFamily("mine_total", "counter", "Mine")
        family.add(1, topic=None)  # type: ignore[arg-type]
        return [family]


class Moody(Keeping):
    """An observer that raises for the attribute `at` in the main thread, but not in the thread that creates it."""

    told: ClassVar[list[str]] = []
    raises: ClassVar[type[BaseException]]
    at: ClassVar[str]

    def __getattr__(self, name: str) -> Any:
        if name == self.at and threading.current_thread() is threading.main_thread():
            raise self.raises
        raise AttributeError(name)


class Garbled(Keeping):
    told: ClassVar[list[str]] = []
    dropped = 10**5000
    remark = "lone \ud800"

    def collect(self) -> Iterable[MetricFamily]:
        raise ValueError("lone \ud800")


def configured(*observers: type[Keeping], **own: str) -> EffectiveConfig:
    stored = {"observer.class.names": ",".join(f"{HERE}.{each.__name__}" for each in observers)}
    return effective_config(
        broker_settings({"node.id": "1"}), stored | {key.replace("_", "."): text for key, text in own.items()}, {}
    )


class Bench:
    """A dispatcher in memory, and the observers of its broker."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.on_served: Callable[[], None] | None = None
        loop, clock = asyncio.get_running_loop(), self.scene.house.clock
        surroundings = BrokerFacts(
            1,
            "cluster",
            "/nowhere",
            clock,
            loop.call_soon_threadsafe,
            loop.call_later,
            tuple,
            tuple,
            lambda: MetadataNow(MetadataImage()),
            NoLimits(),
        )
        self.observers = ObserversInForce(surroundings, lambda _: None, self)
        for each in (First, Second, Late, Clinging, Picky, Changeable, Mismeasured, Moody, Garbled):
            each.told.clear()

    def observe_requests(self, requests: Any, /) -> None:
        self.scene.dispatch.observe(requests)
        if self.on_served is not None:
            call, self.on_served = self.on_served, None
            call()

    def observe_connections(self, tell: object, /) -> None: ...

    def state(self, observer: type[Keeping]) -> ObserverState | None:
        return self.observers.states.get(observer.__name__, (None, ""))[0]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.to_thread(lambda: None)


async def test_a_removed_observer_receives_no_more_responses() -> None:
    bench = Bench()
    bench.observers.configure(configured(First, Second))
    await bench.observers.settle()
    bench.scene.produce(ALL)
    bench.observers.configure(configured(Second))
    await bench.observers.settle()
    bench.scene.replicate()
    assert (First.told, Second.told) == (["request", "closed"], ["request", "response"])


async def test_a_change_of_the_budget_or_the_filter_alone_makes_no_new_observer() -> None:
    bench = Bench()
    bench.observers.configure(configured(First))
    await bench.observers.settle()
    bench.scene.produce(ALL)
    bench.observers.configure(
        configured(First, observer_First_budget_us="5000", observer_First_filter_api_keys="Fetch")
    )
    await bench.observers.settle()
    bench.scene.replicate()
    bench.scene.produce(LEADER)
    assert First.told == ["request", "response"]


async def test_a_change_that_comes_while_another_ends_is_not_forgotten() -> None:
    bench = Bench()
    loop = asyncio.get_running_loop()
    bench.on_served = lambda: loop.call_soon(bench.observers.configure, configured())  # type: ignore[assignment]
    bench.observers.configure(configured(First))
    await bench.until(lambda: First.told == ["closed"])
    assert bench.state(First) is None


async def test_one_that_is_configured_too_late_is_closed() -> None:
    bench = Bench()
    Late.go_on.clear()
    bench.observers.configure(configured(Late, sluicegate_observer_load_timeout_ms="1"))
    await bench.until(lambda: bench.state(Late) is ObserverState.FAILED)
    assert "sluicegate_observer_left_behind 1.0" in render(bench.observers.collect()).decode()
    Late.go_on.set()
    await bench.until(lambda: Late.told == ["closed"])
    assert "sluicegate_observer_left_behind 0.0" in render(bench.observers.collect()).decode()


async def test_a_hanging_observer_is_not_started_again_and_others_load(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An example is a database behind a firewall.

    Previously each retry left a thread, and sixteen kept all observers from loading.
    """
    monkeypatch.setattr(in_force, "_RETRY_S", 0.01)
    bench = Bench()
    Late.go_on.clear()
    begun = Late.begun
    bench.observers.configure(configured(Late, sluicegate_observer_load_timeout_ms="1"))
    await bench.until(lambda: caplog.text.count("observer Late cannot be loaded") > 20)
    assert (Late.begun - begun, bench.observers.left_behind) == (1, 1)
    bench.observers.configure(configured(Late, First, observer_Late_word="other"))
    await bench.until(lambda: bench.state(First) is ObserverState.LOADED)
    await bench.until(lambda: bench.state(Late) is ObserverState.FAILED)
    assert Late.begun - begun == 1, "another configuration does not begin it either"
    why = bench.observers.states["Late"][1]
    assert why.startswith("its import or `configure` has not returned for 0 s, and the observer is not called again")
    Late.go_on.set()
    await bench.until(lambda: bench.state(Late) is ObserverState.LOADED)
    assert (Late.told, Late.begun - begun, bench.observers.left_behind) == (["closed"], 2, 0)
    await bench.observers.close()


async def test_one_whose_close_hangs_takes_no_other_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_force, "_RETRY_S", 0.01)
    bench = Bench()
    Clinging.go_on.clear()
    bench.observers.configure(configured(Clinging, sluicegate_observer_close_timeout_ms="1"))
    await bench.until(lambda: bench.state(Clinging) is ObserverState.LOADED)
    for word in ("one", "two", "three"):
        changed = configured(Clinging, observer_Clinging_word=word, sluicegate_observer_close_timeout_ms="1")
        bench.observers.configure(changed)
        await bench.observers.settle()
    assert bench.observers.left_behind == 1
    why = bench.observers.states["Clinging"][1]
    assert why.startswith("its close has not returned for 0 s")
    assert why.endswith("; it continues with its previous configuration")
    Clinging.go_on.set()
    await bench.until(lambda: bench.state(Clinging) is ObserverState.LOADED)
    await bench.observers.close()
    assert Clinging.told == ["closed", "closedone", "closedthree"]


async def test_an_observer_that_fails_to_load_is_retried_and_survives_a_bad_change() -> None:
    bench = Bench()
    bench.observers.configure(configured(Picky))
    await bench.observers.settle()
    assert bench.observers.states["Picky"] == (
        ObserverState.FAILED,
        "ValueError: the word must be please, and is ''",
    )
    bench.observers.configure(configured(Picky, observer_Picky_word="please"))
    await bench.observers.settle()
    assert bench.observers.states["Picky"] == (ObserverState.LOADED, "")
    for broken in ({"observer_Picky_word": "now"}, {"observer_Picky_filter_api_keys": "Brew"}):
        bench.observers.configure(configured(Picky, **broken))
        await bench.observers.settle()
        assert bench.state(Picky) is ObserverState.FAILED
        bench.scene.produce(LEADER)
    assert Picky.told == ["request", "response"] * 2
    bench.observers.configure(configured(Picky, observer_Picky_word="please"))
    assert bench.observers.states["Picky"] == (ObserverState.LOADED, "")
    bench.observers.configure(configured())
    await bench.observers.settle()
    assert (Picky.told[-1], dict(bench.observers.states)) == ("closedplease", {})


async def test_a_reconfigurable_observer_keeps_its_state() -> None:
    bench = Bench()
    bench.observers.configure(configured(Changeable, observer_Changeable_word="one"))
    await bench.observers.settle()
    bench.observers.configure(configured(Changeable, observer_Changeable_word="no"))
    await bench.observers.settle()
    assert bench.observers.states["Changeable"] == (
        ObserverState.FAILED,
        "ValueError: no is no word; it continues with its previous configuration",
    )
    bench.observers.configure(configured(Changeable, observer_Changeable_word="two"))
    await bench.observers.settle()
    assert (bench.state(Changeable), Changeable.told) == (ObserverState.LOADED, [])
    await bench.observers.close()
    assert Changeable.told == ["closedtwo"]


async def test_metrics_that_cannot_be_shown_leave_the_page_as_it_is() -> None:
    bench = Bench()
    bench.observers.configure(configured(Mismeasured))
    await bench.observers.settle()
    assert "mine_total" not in render(bench.observers.collect()).decode()
    assert 'sluicegate_observer_errors_total{observer="Mismeasured"} 1.0' in render(bench.observers.collect()).decode()
    await bench.observers.close()
    assert Mismeasured.told == ["closed"]


@pytest.mark.parametrize("raises", [RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("at", ["collect", "reconfigure", "record_connection", "record_no_response"])
async def test_an_observer_that_raises_when_an_attribute_is_read_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, raises: type[BaseException], at: str
) -> None:
    """An error that ends a process would end it, from a task of the event loop."""
    monkeypatch.setattr(Moody, "raises", raises, raising=False)
    monkeypatch.setattr(Moody, "at", at, raising=False)
    bench = Bench()
    bench.observers.configure(configured(Moody, First))
    await bench.observers.settle()
    assert bench.state(First) is ObserverState.LOADED
    assert bench.observers.states["Moody"][1].endswith(f"attributes cannot be read: {raises.__name__}: ")
    assert b"Moody" in render(bench.observers.collect())
    await bench.until(lambda: Moody.told == ["closed"])
    await bench.observers.close()


async def test_an_observers_remark_is_made_encodable_for_clients() -> None:
    bench = Bench()
    bench.observers.configure(configured(Garbled))
    await bench.observers.settle()
    assert b'dropped_total{observer="Garbled"} 9' in render(bench.observers.collect())
    said = bench.observers.states["Garbled"][1]
    assert said.encode().decode() == said
    assert said.count("lone ?") == 2
    await bench.observers.close()
