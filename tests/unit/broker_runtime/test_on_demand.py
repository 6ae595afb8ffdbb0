"""Imports in a thread: once for all callers, again after a failure, and the event loop runs meanwhile."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from broker_runtime.on_demand import Importer, imported

SLOW = "slow_part_of_a_broker"
GATES: dict[str, threading.Event] = {}
"""Events for which the modules below wait while they are imported."""
CODE = """
import threading
from tests.unit.broker_runtime.test_on_demand import GATES
thread = threading.current_thread()
GATES["begun"].set()
assert GATES["go_on"].wait(60)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    # With `--import-mode=importlib` this module has been imported under another name.
    monkeypatch.setitem(sys.modules, "tests.unit.broker_runtime.test_on_demand", sys.modules[__name__])
    GATES.update(begun=threading.Event(), go_on=threading.Event())
    (tmp_path / f"{SLOW}.py").write_text(CODE, encoding="utf-8")
    yield tmp_path
    sys.modules.pop(SLOW, None)


async def begun() -> None:
    await asyncio.to_thread(GATES["begun"].wait, 60)


async def test_a_module_is_imported_once_in_a_thread_for_all_callers(folder: Path) -> None:
    importer, before_s = Importer(), sys.getswitchinterval()
    asking = [asyncio.ensure_future(importer.load(SLOW)) for _ in range(3)]
    await begun()
    assert imported(SLOW) is None, "it is there, and not complete"
    assert sys.getswitchinterval() < before_s
    asking[0].cancel()
    GATES["go_on"].set()
    found = await asyncio.gather(*asking[1:])
    assert found[0] is found[1] is imported(SLOW)
    assert found[0].thread is not threading.main_thread()
    assert sys.getswitchinterval() == before_s
    assert await importer.load(SLOW) is found[0]


async def test_a_module_that_is_there_needs_no_thread(folder: Path) -> None:
    GATES["go_on"].set()
    module = import_module(SLOW)
    threads = threading.active_count()
    assert await Importer().load(SLOW) is module
    assert threading.active_count() == threads


async def test_a_failed_import_is_told_to_all_and_tried_again_by_the_next(folder: Path) -> None:
    importer = Importer()
    (folder / f"{SLOW}.py").write_text("raise OSError('too many open files')", encoding="utf-8")
    found = await asyncio.gather(importer.load(SLOW), importer.load(SLOW), return_exceptions=True)
    assert [str(error) for error in found] == ["too many open files"] * 2
    (folder / f"{SLOW}.py").write_text("number = 5000", encoding="utf-8")
    assert (await importer.load(SLOW)).number == 5000
