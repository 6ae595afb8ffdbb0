"""Runs the console in the terminal until the user ends it."""

import gc
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from sluicegate_operator.cli.top.console.app import TopConsole
from sluicegate_operator.cli.top.model.numbers import ASCII_BLOCKS, BLOCKS
from sluicegate_operator.cli.top.model.screens import BROKERS
from sluicegate_operator.cli.top.sources.source import TopSource

GC_THRESHOLDS = (50_000, 20, 20)


async def run_console(
    found: AbstractAsyncContextManager[TopSource], view: str | None, every_s: float, words: str
) -> None:
    """Run the console. Raises SourceError if there is no first look: then the terminal was not changed."""
    async with found as source:
        first = await source.look()
        collect_rarely()
        console = TopConsole(
            source, first, every_s, table=view or BROKERS.key, words=words, blocks=blocks_of(os.environ)
        )
        await console.run_async()


def collect_rarely() -> None:
    """Make Python's garbage collector run rarely, and only over newer objects.

    A refresh makes a thousand rows, which have no cycles and are freed without the collector. With Python's own
    settings it ran several times at each refresh.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def blocks_of(environment: Mapping[str, str]) -> str:
    """Return the characters of sparklines: ASCII if the locale of the environment has no UTF-8."""
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    return BLOCKS if not locale or "utf-8" in locale.lower().replace("utf8", "utf-8") else ASCII_BLOCKS
