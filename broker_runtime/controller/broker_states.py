"""What the controller thinks of a broker: the four states of seed 004 and every way between them.

Owns the states, the table and the page that is made of it; pure. What a change writes to the journal is the business
of `registration`. Names and replies of heartbeats are those of BrokerHeartbeat (63, KIP-631); where Apache Kafka says
CONTROLLED_SHUTDOWN the seed says Stopping, and a broker that is fenced without a session has a name here: Offline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from broker_runtime.errors import ErrorCode


class BrokerState(Enum):
    OFFLINE = "Offline"
    FENCED = "Fenced"
    ONLINE = "Online"
    STOPPING = "Stopping"


class Event(Enum):
    """What a broker asks, or what happens to it. The values are for people."""

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
    TAKEN = "another incarnation, and the session of this one is live"
    FREE = "another incarnation, and this one has no live session"
    CAUGHT_UP = "its metadata offset has reached its own registration"
    BEHIND = "its metadata offset has not reached its own registration"
    LEADS = "it leads a partition"
    LEADS_NONE = "it leads no partition"
    MAY_GO = "it leads no partition, and every active broker's metadata has the beginning of the shutdown"
    MUST_WAIT = "it still leads a partition, or an active broker's metadata has not the beginning of the shutdown"


@dataclass(frozen=True, slots=True)
class Way:
    """`next` None: the registration is gone. The two flags are those of the heartbeat's answer."""

    state: BrokerState
    event: Event
    guard: Guard
    next: BrokerState | None
    fenced: bool | None = None
    shut_down: bool | None = None
    error: ErrorCode | None = None
    effect: str = ""


_HEARTBEATS = (Event.FENCE, Event.SERVE, Event.STOP, Event.GO)
_UNCHANGED = "keeps its epoch"
_NEW = "a new epoch; the old incarnation leaves the in-sync sets"
_REFUSED = ErrorCode.DUPLICATE_BROKER_REGISTRATION
_LEAVES = "leaves the in-sync sets, its leaderships move"
_FREED = f"{_LEAVES}; its session ends, so the id is free at once"


def _table() -> Iterator[Way]:
    offline, fenced, online, stopping = BrokerState
    for state in BrokerState:
        kept = fenced if state is offline else state
        yield Way(state, Event.REGISTER, Guard.SAME_INCARNATION, kept, effect=_UNCHANGED)
        yield Way(state, Event.REGISTER, Guard.TAKEN, state, error=_REFUSED)
        yield Way(state, Event.REGISTER, Guard.FREE, fenced, effect=_NEW)
    waiting = (
        Way(fenced, Event.FENCE, Guard.ALWAYS, fenced, True, False),
        Way(fenced, Event.SERVE, Guard.CAUGHT_UP, online, False, False, effect="leaderless partitions come back to it"),
        Way(fenced, Event.SERVE, Guard.BEHIND, fenced, True, False),
        Way(fenced, Event.STOP, Guard.ALWAYS, offline, True, True, effect="its session ends"),
        Way(fenced, Event.GO, Guard.ALWAYS, offline, True, True, effect="its session ends"),
    )
    yield from (replace(way, state=offline) for way in waiting)
    yield from waiting
    yield Way(online, Event.FENCE, Guard.ALWAYS, fenced, True, False, effect=_LEAVES)
    yield Way(online, Event.SERVE, Guard.ALWAYS, online, False, False)
    yield Way(online, Event.STOP, Guard.LEADS, stopping, False, False, effect=_LEAVES)
    yield Way(online, Event.STOP, Guard.LEADS_NONE, offline, True, True, effect=_FREED)
    yield Way(online, Event.GO, Guard.ALWAYS, offline, True, True, effect=_FREED)
    for event in (Event.FENCE, Event.SERVE, Event.STOP):
        yield Way(stopping, event, Guard.MUST_WAIT, stopping, False, False)
        yield Way(stopping, event, Guard.MAY_GO, offline, True, True, effect="its session ends, so the id is free")
    yield Way(stopping, Event.GO, Guard.ALWAYS, offline, True, True, effect=_FREED)
    yield Way(offline, Event.SESSION_END, Guard.ALWAYS, offline)
    yield Way(fenced, Event.SESSION_END, Guard.ALWAYS, offline)
    yield Way(online, Event.SESSION_END, Guard.ALWAYS, offline, effect=_LEAVES)
    yield Way(stopping, Event.SESSION_END, Guard.ALWAYS, offline)
    for state in BrokerState:
        yield Way(state, Event.UNREGISTER, Guard.ALWAYS, None, effect=_LEAVES)


WAYS: tuple[Way, ...] = tuple(_table())
_BY_CAUSE: Mapping[tuple[BrokerState, Event], tuple[Way, ...]] = {
    (state, event): tuple(way for way in WAYS if (way.state, way.event) == (state, event))
    for state in BrokerState
    for event in Event
}


def ways(state: BrokerState, event: Event) -> tuple[Way, ...]:
    """Exactly one of them has a guard that holds."""
    return _BY_CAUSE[state, event]
