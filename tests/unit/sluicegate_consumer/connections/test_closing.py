"""Closed connections with TLS, whose other side announces the end, or does not."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluicegate_consumer.connections.closing import ClosingConnections

pytestmark = pytest.mark.virtual_time


class Writer:
    """A closed StreamWriter whose end comes after a while."""

    def __init__(self, ends_after_s: float, error: OSError | None = None) -> None:
        self.aborted = False
        self.transport = SimpleNamespace(abort=self.abort)
        self._ends_after_s, self._error = ends_after_s, error

    def abort(self) -> None:
        self.aborted = True

    async def wait_closed(self) -> None:
        await asyncio.sleep(self._ends_after_s)
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("writer", "takes_s"),
    [(Writer(0.2), 0.2), (Writer(60.0), 1.0), (Writer(0.1, ConnectionResetError()), 0.1)],
)
async def test_a_closed_connection_is_waited_for_and_then_aborted(writer: Writer, takes_s: float) -> None:
    closing, now = ClosingConnections(), asyncio.get_running_loop().time
    began_s = now()
    closing.add(cast(Any, writer))
    closing.add(cast(Any, writer))
    await closing.wait()
    assert writer.aborted
    assert now() - began_s == pytest.approx(takes_s)
    await closing.wait()
