"""A broker's state in the cluster from its own point of view (KIP-631, seed 004): an enum, events and one table.

Pure: time comes as an argument. In the shell, membership.py sends heartbeats and membership_status.py notifies of
changes.

Unlike an Apache Kafka broker, a broker fences itself if no heartbeat was answered for a session. The session counts
from when the last answered heartbeat was sent, so the controller cannot have expired it before. The broker then serves
no clients until a heartbeat reports that it is unfenced. It does the same if the controller fences it, or has lost its
registration.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto


class BrokerState(IntEnum):
    """The state of a broker, with Kafka's numbers, for the metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Phase(Enum):
    """The phase of a broker: its BrokerState, subdivided by why a registered broker does not serve."""

    NOT_RUNNING = auto()
    STARTING = auto()
    """The broker registers for the first time."""
    RECOVERY = auto()
    """The broker is registered. It waits for its metadata, and to be unfenced for the first time."""
    RUNNING = auto()
    FENCED = auto()
    """The broker was running, and the controller fences it."""
    CUT_OFF = auto()
    """The broker was running and fences itself, because the controller has not answered for a session."""
    REJOINING = auto()
    """The broker was registered, and the controller does not know this registration any more."""
    STOPPING = auto()
    """Controlled shutdown: the broker still serves while its leaderships move away."""
    GONE = auto()
    """The controller has released the broker, or the broker no longer waits for that; heartbeats have ended."""
    REPLACED = auto()
    """Another live process has the broker's id: this process must end."""


class LifecycleEvent(Enum):
    """An event of a broker: its own action, an answer of the controller, or a missing answer."""

    START = auto()
    REGISTERED = auto()
    UNFENCED = auto()
    FENCED = auto()
    REGISTRATION_LOST = auto()
    SILENCE = auto()
    """The controller answered no heartbeat for a session."""
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
        # Another process may have the id by now; nothing is left to hand over under the old epoch.
        LifecycleEvent.REGISTRATION_LOST: Phase.GONE,
    },
    Phase.GONE: {},
    Phase.REPLACED: {},
}
"""An event that a phase does not list changes nothing: answers may come late."""

_STATES: Mapping[Phase, BrokerState] = {
    Phase.NOT_RUNNING: BrokerState.NOT_RUNNING,
    Phase.STARTING: BrokerState.STARTING,
    Phase.RECOVERY: BrokerState.RECOVERY,
    Phase.RUNNING: BrokerState.RUNNING,
    # RECOVERY means registered and not serving; only a broker that serves reports 3.
    Phase.FENCED: BrokerState.RECOVERY,
    Phase.CUT_OFF: BrokerState.RECOVERY,
    Phase.REJOINING: BrokerState.STARTING,
    Phase.STOPPING: BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    Phase.GONE: BrokerState.SHUTTING_DOWN,
    Phase.REPLACED: BrokerState.SHUTTING_DOWN,
}


class Lifecycle:
    """The phase of one broker, and the controller's last answer. Times are monotonic, in seconds."""

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
        """Return whether the broker serves clients.

        A stopping broker that served before continues to serve until the process closes its listeners.
        """
        return self.phase is Phase.RUNNING or (self.phase in (Phase.STOPPING, Phase.GONE) and self._served)

    @property
    def wants_shut_down(self) -> bool:
        return self.phase is Phase.STOPPING

    def wants_fence(self, ready: bool) -> bool:
        """Return whether the heartbeat asks to stay fenced; only a fenced broker does.

        A serving broker may be slightly behind, and one that was cut off may still be unfenced for the controller.
        Asking would remove its leaderships without need.
        """
        return not ready and self.phase in (Phase.RECOVERY, Phase.FENCED)

    @property
    def cut_off_s(self) -> float | None:
        """Return the time at which the session expires; None while silence of the controller has no effect."""
        if self._answered_sent_s is None or self.phase not in (Phase.RUNNING, Phase.STOPPING):
            return None
        return self._answered_sent_s + self._session_timeout_s

    def heartbeat_answered(
        self, sent_s: float, now_s: float, *, fenced: bool, released: bool, ready: bool = True
    ) -> None:
        """Apply the controller's answer to a heartbeat of this broker.

        The answer to a heartbeat sent a session ago counts as silence.

        `ready`: whether this broker has enough metadata to serve, should the controller allow it.
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
        """Return why clients should not be sent to this broker; None for a ready broker."""
        return _REASONS[self.phase]


_REASONS: Mapping[Phase, str | None] = {
    Phase.NOT_RUNNING: "not started yet",
    Phase.STARTING: "not registered with the controller yet",
    Phase.RECOVERY: "registered, but not caught up and unfenced yet",
    Phase.RUNNING: None,
    Phase.FENCED: "fenced by the controller",
    Phase.CUT_OFF: "fenced by this broker itself: the controller has not answered for broker.session.timeout.ms",
    Phase.REJOINING: "the controller no longer knows this registration; registering again",
    Phase.STOPPING: "stopping: leaderships are moving to other brokers",
    Phase.GONE: "stopping",
    Phase.REPLACED: "another live process is registered with this broker id",
}
