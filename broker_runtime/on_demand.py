"""Import modules when they are first used, in a thread, so that the event loop does not wait.

The parts of a broker that many brokers never use are imported here, each by one module with `on_demand` in its name
(decision 45).
"""

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

_PAUSE_S = 0.0002
_SWITCH_S = 0.0005
"""Python switches threads after 5 ms: the event loop would wait for that long after each system call."""
_NEW_OBJECTS_MAX = 100_000
"""New objects before Python collects garbage among them, which stops all threads. An import creates at most 20,000."""
_one_at_a_time = threading.Lock()
"""Locked during an import in a thread, because each import changes settings of the interpreter and restores them."""


def imported(name: str) -> ModuleType | None:
    """Return the module if its import has completed, else None."""
    module = sys.modules.get(name)
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None
    return module


class Importer:
    """Imports modules in a thread, each once for all callers that wait for it.

    It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._imports: dict[str, asyncio.Future[Any]] = {}

    async def load(self, name: str) -> ModuleType:
        """Import and return the module that this object stands for.

        Raises the errors of its import; a later call tries again.
        """
        module = imported(name)
        if module is not None:
            return module
        running = self._imports.get(name)
        if running is None:
            running = self._imports[name] = asyncio.ensure_future(asyncio.to_thread(import_in_pieces, name))
            running.add_done_callback(lambda done: self._ended(name, done))
        # A caller that is cancelled does not end the import of the others.
        found: ModuleType = await asyncio.shield(running)
        return found

    def _ended(self, name: str, done: asyncio.Future[Any]) -> None:
        del self._imports[name]
        if not done.cancelled():
            # Each caller has the error already, or was cancelled.
            done.exception()


def import_in_pieces(name: str) -> ModuleType:
    """Import a module in this thread, with a pause for other threads before each module that it imports in turn."""
    pauses = _Pauses()
    with _one_at_a_time, _others_first():
        sys.meta_path.insert(0, pauses)
        try:
            return import_module(name)
        finally:
            sys.meta_path.remove(pauses)


@contextmanager
def _others_first() -> Iterator[None]:
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(_NEW_OBJECTS_MAX, *thresholds[1:])
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        gc.set_threshold(*thresholds)


class _Pauses:
    """A finder for sys.meta_path that finds no module, and pauses its own thread before each module."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._never = threading.Event()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /) -> None:
        if threading.get_ident() == self._thread:
            self._never.wait(_PAUSE_S)
