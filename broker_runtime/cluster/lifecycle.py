"""What a broker is in the cluster, from its own point of view (KIP-631, seed 004): an enum, events and one table.

Pure: time comes as an argument; who sends heartbeats and whom a change is told is the shell's concern (membership.py).

Unlike Apache Kafka a broker fences itself: when no heartbeat was answered for a session - counted from when the last
answered one was sent, so the controller cannot have given up on it before - it serves no clients until a heartbeat
says that it is unfenced. It does the same when the controller says that it is fenced, or has lost its registration.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto


class BrokerState(IntEnum):
    """Kafka's numbers, for the metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Phase(Enum):
    """BrokerState, with the ways to be registered and not serve told apart."""

    NOT_RUNNING = auto()
    STARTING = auto()
    """Registers for the first time."""
    RECOVERY = auto()
    """Registered; waits for its metadata and to be unfenced for the first time."""
    RUNNING = auto()
    FENCED = auto()
    """Was running; the controller fences it."""
    CUT_OFF = auto()
    """Was running; fences itself, as the controller has not answered for a session."""
    REJOINING = auto()
    """Was registered; the controller does not know this registration any more."""
    STOPPING = auto()
    """Controlled shutdown: still serves while its leaderships move away."""
    GONE = auto()
    """Released by the controller, or it waits no longer; heartbeats have ended."""
    REPLACED = auto()
    """Another live process holds its id: it must end."""


class LifecycleEvent(Enum):
    """What happens to a broker: by its own doing, by the controller's answers, or by their absence."""

    START = auto()
    REGISTERED = auto()
    UNFENCED = auto()
    FENCED = auto()
    REGISTRATION_LOST = auto()
    SILENCE = auto()
    """No heartbeat was answered for a session."""
    LEAVE = auto()
    RELEASED = auto()
    DEADLINE = auto()
    REPLACED = auto()


_TABLE: Mapping[Phase, Mapping[LifecycleEvent, Phase]] = {
    Phase.NOT_RUNNING: {
        LifecycleEvent.START: Phase.STARTING,
        LifecycleEvent.LEAVE: Phase.GONE,
    },
    Phase.STARTING: {
        LifecycleEvent.REGISTERED: Phase.RECOVERY,
        LifecycleEvent.LEAVE: Phase.GONE,
    },
    Phase.RECOVERY: {
        LifecycleEvent.UNFENCED: Phase.RUNNING,
        LifecycleEvent.REGISTRATION_LOST: Phase.REJOINING,
        LifecycleEvent.LEAVE: Phase.STOPPING,
    },
    Phase.RUNNING: {
        LifecycleEvent.FENCED: Phase.FENCED,
        LifecycleEvent.SILENCE: Phase.CUT_OFF,
        LifecycleEvent.REGISTRATION_LOST: Phase.REJOINING,
        LifecycleEvent.LEAVE: Phase.STOPPING,
    },
    Phase.FENCED: {
        LifecycleEvent.UNFENCED: Phase.RUNNING,
        LifecycleEvent.REGISTRATION_LOST: Phase.REJOINING,
        LifecycleEvent.LEAVE: Phase.STOPPING,
    },
    Phase.CUT_OFF: {
        LifecycleEvent.UNFENCED: Phase.RUNNING,
        LifecycleEvent.FENCED: Phase.FENCED,
        LifecycleEvent.REGISTRATION_LOST: Phase.REJOINING,
        # Nothing can be handed over to a controller that does not answer.
        LifecycleEvent.LEAVE: Phase.GONE,
    },
    Phase.REJOINING: {
        LifecycleEvent.REGISTERED: Phase.FENCED,
        LifecycleEvent.LEAVE: Phase.GONE,
        LifecycleEvent.REPLACED: Phase.REPLACED,
    },
    Phase.STOPPING: {
        LifecycleEvent.RELEASED: Phase.GONE,
        LifecycleEvent.DEADLINE: Phase.GONE,
        LifecycleEvent.SILENCE: Phase.GONE,
        # The id may be somebody else's by now; there is nothing left to hand over under the old epoch.
        LifecycleEvent.REGISTRATION_LOST: Phase.GONE,
    },
    Phase.GONE: {},
    Phase.REPLACED: {},
}
"""An event that a phase does not name changes nothing: answers may come late."""

_STATES: Mapping[Phase, BrokerState] = {
    Phase.NOT_RUNNING: BrokerState.NOT_RUNNING,
    Phase.STARTING: BrokerState.STARTING,
    Phase.RECOVERY: BrokerState.RECOVERY,
    Phase.RUNNING: BrokerState.RUNNING,
    # Registered and not serving is what RECOVERY says; 3 is only ever shown by a broker that serves.
    Phase.FENCED: BrokerState.RECOVERY,
    Phase.CUT_OFF: BrokerState.RECOVERY,
    Phase.REJOINING: BrokerState.STARTING,
    Phase.STOPPING: BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    Phase.GONE: BrokerState.SHUTTING_DOWN,
    Phase.REPLACED: BrokerState.SHUTTING_DOWN,
}


class Lifecycle:
    """The phase that one broker is in, and since when the controller has answered; times are monotonic, in seconds."""

    def __init__(self, session_timeout_s: float) -> None:
        self.phase = Phase.NOT_RUNNING
        self._session_timeout_s = session_timeout_s
        self._answered_sent_s: float | None = None
        self._served = False

    @property
    def state(self) -> BrokerState:
        return _STATES[self.phase]

    @property
    def serves(self) -> bool:
        """A broker that stops and served before serves on, until the process closes its listeners."""
        return self.phase is Phase.RUNNING or (self.phase in (Phase.STOPPING, Phase.GONE) and self._served)

    @property
    def wants_shut_down(self) -> bool:
        return self.phase is Phase.STOPPING

    def wants_fence(self, ready: bool) -> bool:
        """Only who is fenced asks to stay so.

        A broker that serves may be a moment behind, and one that was cut off may still be unfenced for the controller:
        asking would take its leaderships away for nothing.
        """
        return not ready and self.phase in (Phase.RECOVERY, Phase.FENCED)

    @property
    def cut_off_s(self) -> float | None:
        """When the silence becomes too long; None while no silence matters."""
        if self._answered_sent_s is None or self.phase not in (Phase.RUNNING, Phase.STOPPING):
            return None
        return self._answered_sent_s + self._session_timeout_s

    def heartbeat_answered(
        self, sent_s: float, now_s: float, *, fenced: bool, released: bool, ready: bool = True
    ) -> None:
        """An answer to a heartbeat that was sent a session ago says nothing about now.

        `ready`: whether this broker knows enough to serve, should the controller let it.
        """
        self._answered_sent_s = max(sent_s, self._answered_sent_s or sent_s)
        if now_s >= sent_s + self._session_timeout_s:
            self.on(LifecycleEvent.SILENCE)
        elif released:
            self.on(LifecycleEvent.RELEASED)
        elif fenced or ready:
            self.on(LifecycleEvent.FENCED if fenced else LifecycleEvent.UNFENCED)

    def on(self, event: LifecycleEvent) -> None:
        self._served = self.serves and event not in (LifecycleEvent.SILENCE, LifecycleEvent.REGISTRATION_LOST)
        self.phase = _TABLE[self.phase].get(event, self.phase)

    def why_not_ready(self) -> str | None:
        """None for a broker that clients are to be sent to."""
        return _REASONS[self.phase]


_REASONS: Mapping[Phase, str | None] = {
    Phase.NOT_RUNNING: "not started yet",
    Phase.STARTING: "not registered with the controller yet",
    Phase.RECOVERY: "registered, and not caught up and unfenced yet",
    Phase.RUNNING: None,
    Phase.FENCED: "fenced by the controller",
    Phase.CUT_OFF: "fenced by itself: the controller has not answered for broker.session.timeout.ms",
    Phase.REJOINING: "the controller does not know this registration any more; registering again",
    Phase.STOPPING: "stopping: leaderships are moving away",
    Phase.GONE: "stopping",
    Phase.REPLACED: "another live process is registered with this broker id",
}
