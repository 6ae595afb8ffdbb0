"""Loads the support for observers only when the configuration names one. Shell.

It would take half a megabyte in each idle broker. The import takes some hundredths of a second, in a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.config.keys.observers import observer_name
from broker_runtime.exposition import MetricFamily
from broker_runtime.observers.running.states import ObserverState, States, note_on, state_family
from broker_runtime.observers.surroundings import BrokerFacts, ObservedParts, TopicName
from broker_runtime.on_demand import import_in_pieces

if TYPE_CHECKING:
    from broker_runtime.observers.running.in_force import ObserversInForce

log = logging.getLogger(__name__)

IN_FORCE = "broker_runtime.observers.running.in_force"
_RETRY_S = 60.0


class ObserversOnDemand:
    """The observers of a broker, imported once the configuration names an observer. Nothing is durable.

    A failed import, for example because no file can be opened, is reported like an observer that cannot be loaded.
    """

    def __init__(
        self,
        surroundings: BrokerFacts,
        topic_name: TopicName,
        parts: ObservedParts,
        import_module: Callable[[str], Any] = import_in_pieces,
    ) -> None:
        self._made_of = (surroundings, topic_name, parts)
        self._import = import_module
        self._call_later = surroundings.call_later
        self._wanted: EffectiveConfig | None = None
        self._in_force: ObserversInForce | None = None
        self._importing: asyncio.Task[None] | None = None
        self._problem: str | None = None
        self._closed = False

    async def start(self, effective: EffectiveConfig) -> None:
        """Load the observers in the properties file before clients come, waiting at most their load timeout."""
        self.configure(effective)
        if self._importing is not None:
            await self._importing
        if self._in_force is not None:
            await self._in_force.settle()

    def configure(self, effective: EffectiveConfig) -> None:
        self._wanted = effective
        if self._in_force is not None:
            self._in_force.configure(effective)
        elif effective.config.observer_class_names and self._importing is None and not self._closed:
            self._importing = asyncio.get_running_loop().create_task(self._bring_into_force(), name="observers")

    @property
    def loading(self) -> bool:
        """Return whether a configured observer is still being loaded, and has not failed."""
        if self._in_force is not None:
            return self._in_force.changing
        return self._importing is not None and not self._importing.done()

    async def _bring_into_force(self) -> None:
        """Import the support and apply the latest configuration, which may have changed during the import."""
        try:
            module = await asyncio.to_thread(self._import, IN_FORCE)
            self._in_force = module.ObserversInForce(*self._made_of)
            if self._wanted is not None:
                self._in_force.configure(self._wanted)
        except Exception as error:
            self._problem = f"{type(error).__name__}: {error}".splitlines()[0]
            log.exception("observers cannot be loaded; retrying in %g s", _RETRY_S)
            self._call_later(_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._importing = None
        if self._wanted is not None:
            self.configure(self._wanted)

    def note_on(self, key: str) -> str | None:
        """Return the text to show with this configuration key; None without one."""
        return note_on(key, self._states())

    def collect(self) -> Iterator[MetricFamily]:
        if self._in_force is not None:
            yield from self._in_force.collect()
        elif states := self._states():
            yield state_family(states)

    def _states(self) -> States:
        if self._in_force is not None:
            return self._in_force.states
        state = ObserverState.LOADING, "it is being loaded"
        if self._problem is not None:
            state = ObserverState.FAILED, self._problem
        names = () if self._wanted is None else self._wanted.config.observer_class_names
        return {observer_name(item): state for item in names}

    async def close(self) -> None:
        """Stop observing, and close all observers."""
        self._closed = True
        if self._importing is not None:
            self._importing.cancel()
        if self._in_force is not None:
            await self._in_force.close()
