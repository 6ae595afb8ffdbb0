"""The operator as kopf runs it: its version, its start and its end, and a handler that fails."""

import asyncio
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.handlers import kopf_operator
from sluicegate_operator.handlers.kopf_operator import KOPF, KopfOperator, kopf_warning
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject, Reader
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP, Kind
from tests.support.fakes.kube.scripted_api import PATIENCE_S, Script, cached, event, page, until, without_pauses
from tools.pins import parse

ROOT = Path(__file__).parents[4]
MAPS = Watched(CONFIG_MAP, 30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


def a_map(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}}


def test_the_version_of_kopf_is_pinned_to_the_one_that_is_tested() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"kopf=={KOPF}" in extras["operator"]
    assert parse((ROOT / "constraints.txt").read_text())["kopf"].version == KOPF
    assert kopf_warning() == ""


async def test_another_version_of_kopf_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kopf_operator, "version", lambda _: "1.30.0")
    async with cached(Script(page()), MAPS) as cache:
        assert await cache.get(CONFIG_MAP, "default", "a") is None
    said = f"kopf 1.30.0 is installed, but Sluicegate is tested with kopf {KOPF}: install kopf=={KOPF}"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [said]


async def test_kopf_keeps_nothing_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Noted(kopf_operator._NoMemories):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(kopf_operator, "_NoMemories", Noted)
    async with cached(Script(page(a_map("a", 1), a_map("b", 2))), MAPS) as cache:
        assert await cache.get(CONFIG_MAP, "default", "b") is not None
        assert [list(one.iter_all_memories()) for one in made] == [[]]


async def test_an_object_that_the_handler_cannot_read_is_no_smaller_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind is unknown, and listed again until the object is read."""
    odd = ["odd"]
    read = Reader.read

    def note_and_read(reader: Reader, kind: Kind, body: Mapping[str, Any]) -> CachedObject:
        if body["metadata"]["name"] in odd:
            raise ValueError("what is this?")
        return read(reader, kind, body)

    monkeypatch.setattr(Reader, "read", note_and_read)
    script = Script(page(a_map("a", 3)), page(a_map("a", 3), a_map("odd", 6), version=6))
    async with cached(script, MAPS) as cache:
        assert await cache.get(CONFIG_MAP, "default", "a") is not None
        script.said.put_nowait(event("ADDED", a_map("odd", 6)))
        await until(lambda: len([one for one in script.asked if "limit" in one]) > 3)
        monkeypatch.setattr("sluicegate_operator.kube.cache.cache.FILL_PATIENCE_S", 0.001)
        with pytest.raises(KubeError):
            await cache.get(CONFIG_MAP, "default", "odd")
        odd.clear()
        await until(lambda: cache.informers()[CONFIG_MAP].has_synced.is_set() and not cache.errors())
        assert await cache.get(CONFIG_MAP, "default", "odd") is not None


async def test_a_kopf_that_ends_is_started_again() -> None:
    """After a fault of its own, and after a start without a certificate."""
    script, begun, faults = Script(RuntimeError("a fault"), page(a_map("a", 3))), [], [OSError("no certificate")]

    def transport() -> Script:
        if faults:
            raise faults.pop()
        return script

    cache = Cache([MAPS])
    errors: list[str] = []
    cache.on_error = lambda: errors.extend(str(error) for error in cache.errors().values())
    kopf = KopfOperator(transport, None, lambda: begun.append(1), cache)
    kopf.start()
    async with asyncio.timeout(PATIENCE_S):
        await until(lambda: any("a fault" in error for error in errors) and not cache.errors())
        assert await cache.get(CONFIG_MAP, "default", "a") is not None
    assert len(begun) == 2, "kopf takes the signals each time"
    assert "kopf has ended and is restarted: OSError('no certificate')" in errors
    errors.clear()
    kopf.stop()
    await kopf.stopped()
    assert errors == [], "an end that was asked for is not reported"
    assert "kopf has stopped: configmaps are not watched" in str(cache.errors()[CONFIG_MAP])
    assert script.closed, "its connections are closed"
