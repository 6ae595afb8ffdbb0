"""The controller's state machine of a broker: the four states of seed 004 and every transition between them.

This module owns the states and the table, from which a documentation page is generated (tools/); pure. `registration`
defines what a change writes to the journal. Names and replies of heartbeats are those of BrokerHeartbeat (63, KIP-631).
Apache Kafka's CONTROLLED_SHUTDOWN is Stopping here, as in the seed, and a fenced broker without a session is Offline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from broker_runtime.errors import ErrorCode


class BrokerControlState(Enum):
    """The state of a broker as the controller sees it, as in Kafka.

    The broker's own view is in cluster.lifecycle.
    """

    OFFLINE = "Offline"
    FENCED = "Fenced"
    ONLINE = "Online"
    STOPPING = "Stopping"


class BrokerEvent(Enum):
    """A request of a broker, or an event that concerns it. The values are for display."""

    REGISTER = "BrokerRegistration"
    FENCE = "heartbeat, WantFence"
    SERVE = "heartbeat"
    STOP = "heartbeat, WantShutDown"
    GO = "heartbeat, WantFence and WantShutDown"
    SESSION_END = "no heartbeat for broker.session.timeout.ms"
    UNREGISTER = "UnregisterBroker"


class Guard(Enum):
    """A condition that chooses between the rows of one state and event."""

    ALWAYS = ""
    SAME_INCARNATION = "the same incarnation"
    TAKEN = "another incarnation, and the session of the registered one is live"
    FREE = "another incarnation, and the registered one has no live session"
    CAUGHT_UP = "its metadata offset has reached its own registration"
    BEHIND = "its metadata offset has not reached its own registration"
    LEADS = "it leads a partition"
    LEADS_NONE = "it leads no partition"
    MAY_GO = "it leads no partition, and every active broker knows that it is stopping"
    MUST_WAIT = "it still leads a partition, or an active broker does not know yet that it is stopping"


@dataclass(frozen=True, slots=True)
class Transition:
    """A row of the table of broker states.

    `next` is None if the registration is removed. The flags are those of the heartbeat's answer.
    """

    state: BrokerControlState
    event: BrokerEvent
    guard: Guard
    next: BrokerControlState | None
    fenced: bool | None = None
    shut_down: bool | None = None
    error: ErrorCode | None = None
    effect: str = ""


_UNCHANGED = "keeps its epoch"
_NEW = "a new epoch; leaves the in-sync sets, and becomes ineligible to lead if its data is not complete"
_REFUSED = ErrorCode.DUPLICATE_BROKER_REGISTRATION
_LEAVES = "leaves the in-sync sets; its leaderships move to other brokers"
_FREED = f"{_LEAVES}; its session ends, so the id is free at once"


def _table() -> Iterator[Transition]:
    offline, fenced, online, stopping = BrokerControlState
    for state in BrokerControlState:
        kept = fenced if state is offline else state
        yield Transition(state, BrokerEvent.REGISTER, Guard.SAME_INCARNATION, kept, effect=_UNCHANGED)
        if state is not offline:
            yield Transition(state, BrokerEvent.REGISTER, Guard.TAKEN, state, error=_REFUSED)
        yield Transition(state, BrokerEvent.REGISTER, Guard.FREE, fenced, effect=_NEW)
    waiting = (
        Transition(fenced, BrokerEvent.FENCE, Guard.ALWAYS, fenced, True, False),
        Transition(
            fenced,
            BrokerEvent.SERVE,
            Guard.CAUGHT_UP,
            online,
            False,
            False,
            effect="it becomes the leader of partitions without a leader for which it is eligible",
        ),
        Transition(fenced, BrokerEvent.SERVE, Guard.BEHIND, fenced, True, False),
        Transition(fenced, BrokerEvent.STOP, Guard.ALWAYS, offline, True, True, effect="its session ends"),
        Transition(fenced, BrokerEvent.GO, Guard.ALWAYS, offline, True, True, effect="its session ends"),
    )
    yield from (replace(transition, state=offline) for transition in waiting)
    yield from waiting
    yield Transition(online, BrokerEvent.FENCE, Guard.ALWAYS, fenced, True, False, effect=_LEAVES)
    yield Transition(online, BrokerEvent.SERVE, Guard.ALWAYS, online, False, False)
    yield Transition(online, BrokerEvent.STOP, Guard.LEADS, stopping, False, False, effect=_LEAVES)
    yield Transition(online, BrokerEvent.STOP, Guard.LEADS_NONE, offline, True, True, effect=_FREED)
    yield Transition(online, BrokerEvent.GO, Guard.ALWAYS, offline, True, True, effect=_FREED)
    for event in (BrokerEvent.FENCE, BrokerEvent.SERVE, BrokerEvent.STOP):
        yield Transition(stopping, event, Guard.MUST_WAIT, stopping, False, False)
        yield Transition(
            stopping, event, Guard.MAY_GO, offline, True, True, effect="its session ends, so the id is free"
        )
    yield Transition(stopping, BrokerEvent.GO, Guard.ALWAYS, offline, True, True, effect=_FREED)
    yield Transition(offline, BrokerEvent.SESSION_END, Guard.ALWAYS, offline)
    yield Transition(fenced, BrokerEvent.SESSION_END, Guard.ALWAYS, offline)
    yield Transition(online, BrokerEvent.SESSION_END, Guard.ALWAYS, offline, effect=_LEAVES)
    yield Transition(stopping, BrokerEvent.SESSION_END, Guard.ALWAYS, offline)
    for state in BrokerControlState:
        yield Transition(state, BrokerEvent.UNREGISTER, Guard.ALWAYS, None, effect=_LEAVES)


TRANSITIONS: tuple[Transition, ...] = tuple(_table())
_BY_CAUSE: Mapping[tuple[BrokerControlState, BrokerEvent], tuple[Transition, ...]] = {
    (state, event): tuple(
        transition for transition in TRANSITIONS if (transition.state, transition.event) == (state, event)
    )
    for state in BrokerControlState
    for event in BrokerEvent
}


def transitions(state: BrokerControlState, event: BrokerEvent) -> tuple[Transition, ...]:
    """Return the rows of a state and event. The guard of exactly one row holds."""
    return _BY_CAUSE[state, event]
