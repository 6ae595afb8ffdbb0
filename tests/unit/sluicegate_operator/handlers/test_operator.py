"""What kopf is started with."""

import asyncio
import getpass

import kopf
import pytest

from sluicegate_operator.handlers.operator import watch
from sluicegate_operator.settings import read_settings


async def test_it_starts_under_a_uid_that_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", no_entry)
    stop = asyncio.Event()
    registry = kopf.OperatorRegistry()

    async def login(**_: object) -> None:
        """The first that kopf asks for once it has started."""
        stop.set()
        await asyncio.Event().wait()

    kopf.on.login(registry=registry)(login)
    await watch(registry, read_settings({"SLUICEGATE_IDENTITY": "operator-0"}, "shop", None, None), stop)
    assert stop.is_set()
