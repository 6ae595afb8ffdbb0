"""What kopf is started with, and how often: kinds whose CRDs come late, go and come back."""

import asyncio
import getpass
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import kopf
import pytest

from sluicegate_operator.api.metadata import API_VERSION, GROUP
from sluicegate_operator.handlers import kopf_thread
from sluicegate_operator.handlers.health import Readiness
from sluicegate_operator.handlers.kopf_thread import KopfThread, run_kopf
from sluicegate_operator.kube.kinds import BROKER_CLUSTER, BROKER_REGISTRATION, CUSTOM, TOPIC, Kind
from sluicegate_operator.settings import read_settings


async def test_it_starts_under_a_uid_that_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", no_entry)
    stop = threading.Event()
    registry = kopf.OperatorRegistry()

    async def login(**_: object) -> None:
        """The first that kopf asks for once it has started."""
        stop.set()
        await asyncio.Event().wait()

    kopf.on.login(registry=registry)(login)
    await run_kopf(registry, read_settings({"SLUICEGATE_IDENTITY": "operator-0"}, "shop", None, None), stop)
    assert stop.is_set()


class Api:
    """What an API server says of the kinds that it serves."""

    def __init__(self, *kinds: Kind) -> None:
        self.served = set(kinds)

    async def read(self, path: str) -> dict[str, Any] | None:
        if path == "/apis":
            return {"groups": [{"name": GROUP}] if self.served else []}
        assert path == f"/apis/{API_VERSION}"
        return {"resources": [{"name": kind.plural} for kind in self.served]} if self.served else None


class Lives:
    """In place of the watch and of kopf: notes what was to be watched in each life of kopf, which ends when it is told
    to or made to fail."""

    def __init__(self) -> None:
        self.watched: list[set[str]] = []
        self.fail = asyncio.Event()

    def register(self, registry: kopf.OperatorRegistry, kinds: Collection[Kind]) -> None:
        self.watched.append({kind.plural for kind in kinds})

    async def run(self, registry: kopf.OperatorRegistry, settings: object, stop: threading.Event) -> None:
        while not stop.is_set():
            if self.fail.is_set():
                self.fail.clear()
                raise RuntimeError("404: no such kind")
            await asyncio.sleep(0.05)


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Lives:
    def here(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Future[None]:
        return asyncio.ensure_future(work())

    lives = Lives()
    monkeypatch.setattr(kopf_thread, "run_kopf", lives.run)
    monkeypatch.setattr(kopf_thread, "in_thread", here)
    return lives


async def run_steps(api: Api, lives: Lives, *steps: Callable[[], object]) -> list[tuple[str, ...]]:
    """A step every five seconds; what was said against readiness after each of them."""
    readiness = Readiness()
    thread = KopfThread(api, read_settings({}, None, None, None), lives, readiness)  # type: ignore[arg-type]
    running = asyncio.create_task(thread.run())
    said = []
    for step in steps:
        step()
        await asyncio.sleep(5.0)
        said.append(readiness.reasons)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return said


@pytest.mark.virtual_time
async def test_started_before_its_crds_it_waits_says_so_and_goes_on_when_they_are_there(lives: Lives) -> None:
    api, started = Api(), list[int]()
    said = await run_steps(
        api,
        lives,
        lambda: None,
        lambda: started.append(len(lives.watched)),
        lambda: api.served.update((*CUSTOM, BROKER_REGISTRATION)),
    )
    assert started == [0]
    assert "brokerclusters.sluicegate.dev" in said[1][0]
    assert said[2] == ()
    assert lives.watched == [{kind.plural for kind in CUSTOM}]


@pytest.mark.virtual_time
async def test_a_kind_that_is_missing_is_watched_once_it_comes_and_holds_up_none_of_the_others(lives: Lives) -> None:
    api = Api(*(set(CUSTOM) - {TOPIC}), BROKER_REGISTRATION)
    said = await run_steps(api, lives, lambda: None, lambda: api.served.add(TOPIC))
    assert said == [("waits for CRDs that are not there, apply crds/: topics.sluicegate.dev",), ()]
    every = {kind.plural for kind in CUSTOM}
    assert lives.watched == [every - {TOPIC.plural}, every]


@pytest.mark.virtual_time
async def test_a_crd_that_is_deleted_ends_the_watch_of_its_kind_and_nothing_else(lives: Lives) -> None:
    api = Api(*CUSTOM, BROKER_REGISTRATION)

    def delete() -> None:
        api.served.discard(BROKER_CLUSTER)
        lives.fail.set()

    said = await run_steps(api, lives, lambda: None, delete, lambda: api.served.add(BROKER_CLUSTER))
    assert said[1] == ("waits for CRDs that are not there, apply crds/: brokerclusters.sluicegate.dev",)
    assert said[2] == ()
    every = {kind.plural for kind in CUSTOM}
    assert lives.watched == [every, every - {BROKER_CLUSTER.plural}, every]


@pytest.mark.virtual_time
@pytest.mark.parametrize("gone", [TOPIC, BROKER_REGISTRATION], ids=lambda kind: kind.plural)
async def test_a_crd_that_goes_before_kopf_has_looked_for_it_is_missed_all_the_same(lives: Lives, gone: Kind) -> None:
    """kopf watches what it finds at its start, and does not fail for what it does not find."""
    api = Api(*CUSTOM, BROKER_REGISTRATION)

    def wait() -> None:
        """A step in which nothing happens."""

    said = await run_steps(api, lives, wait, lambda: api.served.discard(gone), wait, lambda: api.served.add(gone), wait)
    assert said[2] == (f"waits for CRDs that are not there, apply crds/: {gone.crd}",)
    assert said[4] == ()
    every = {kind.plural for kind in CUSTOM}
    assert lives.watched == [every, every - {gone.plural}, every]
