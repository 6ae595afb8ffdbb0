"""The state of a broker's membership: its phase, its epoch, and whether it serves clients.

The shell around lifecycle.py for everything but requests: it logs changes and notifies the listeners for clients.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from broker_runtime.cluster.lifecycle import BrokerState, Lifecycle, LifecycleEvent, Phase

log = logging.getLogger(__name__)


class ClientDoor(Protocol):
    """Receives whether the broker is to serve clients.

    The two calls alternate, and the first is `on_unfenced`.
    """

    def progress(self) -> tuple[int, bool]:
        """Return the metadata offset, and whether this broker has enough metadata to serve."""
        ...

    def knows_unfenced(self, epoch: int) -> bool:
        """Return whether the metadata in force here has this broker unfenced with this epoch."""
        ...

    def on_fenced(self, reason: str) -> None: ...

    def on_unfenced(self) -> None: ...


class MembershipStatus:
    """The status of one broker's membership. `Membership` alone reports events to it; all others read it."""

    def __init__(self, broker_id: int, session_timeout_s: float, door: ClientDoor, on_end: Callable[[], None]) -> None:
        """`on_end` is called when the broker has left its cluster or was replaced, before the door is closed."""
        self.epoch = -1
        """The broker epoch of the last registration; -1 before the first."""
        self.serving = False
        """Whether clients are served."""
        self.lifecycle = Lifecycle(session_timeout_s)
        """To be read only: events are reported to this object."""
        self.broker_id = broker_id
        self._door = door
        self._on_end = on_end

    @property
    def state(self) -> BrokerState:
        return self.lifecycle.state

    @property
    def phase(self) -> Phase:
        return self.lifecycle.phase

    @property
    def self_fenced(self) -> bool:
        return self.lifecycle.phase is Phase.CUT_OFF

    def why_not_ready(self) -> str | None:
        return self.lifecycle.why_not_ready()

    def registered(self, epoch: int) -> None:
        self.epoch = epoch
        log.info("broker %d is registered with epoch %d", self.broker_id, epoch)
        self.on(LifecycleEvent.REGISTERED)

    def on(self, event: LifecycleEvent) -> None:
        before = self.lifecycle.phase
        self.lifecycle.on(event)
        self._changed(before)

    def heartbeat_answered(self, sent_s: float, now_s: float, *, fenced: bool, released: bool, ready: bool) -> None:
        """Apply the controller's answer to a heartbeat of this broker.

        The answer to a heartbeat sent a session ago counts as silence.
        """
        before = self.lifecycle.phase
        self.lifecycle.heartbeat_answered(sent_s, now_s, fenced=fenced, released=released, ready=ready)
        self._changed(before)

    def _changed(self, before: Phase) -> None:
        after = self.lifecycle.phase
        if after is before:
            return
        log.debug("broker %d: %s -> %s", self.broker_id, before.name, after.name)
        if after in (Phase.GONE, Phase.REPLACED):
            self._on_end()
        if self.serving and not self.lifecycle.serves:
            self.serving = False
            reason = self.lifecycle.why_not_ready() or "stopping"
            log.warning("broker %d serves no clients: %s", self.broker_id, reason)
            self._door.on_fenced(reason)
        elif not self.serving and self.lifecycle.serves:
            self.serving = True
            log.info("broker %d is unfenced with epoch %d and serves clients", self.broker_id, self.epoch)
            self._door.on_unfenced()
