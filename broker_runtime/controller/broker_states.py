"""What the controller thinks of a broker: the four states of seed 004 and every transition between them.

Owns the states, the table and the page that is made of it; pure. What a change writes to the journal is the business
of `registration`. Names and replies of heartbeats are those of BrokerHeartbeat (63, KIP-631); where Apache Kafka says
CONTROLLED_SHUTDOWN the seed says Stopping, and a broker that is fenced without a session has a name here: Offline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from broker_runtime.errors import ErrorCode


class BrokerControlState(Enum):
    """A broker in the controller's eyes (so in Kafka, too); what it tells of itself is in cluster.lifecycle."""

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
    MAY_GO = "it leads no partition, and every active broker knows that it stops"
    MUST_WAIT = "it still leads a partition, or an active broker does not know yet that it stops"


@dataclass(frozen=True, slots=True)
class Transition:
    """`next` None: the registration is gone. The two flags are those of the heartbeat's answer."""

    state: BrokerControlState
    event: Event
    guard: Guard
    next: BrokerControlState | None
    fenced: bool | None = None
    shut_down: bool | None = None
    error: ErrorCode | None = None
    effect: str = ""


_UNCHANGED = "keeps its epoch"
_NEW = "a new epoch; leaves the in-sync sets, and is eligible for none if its data is not whole"
_REFUSED = ErrorCode.DUPLICATE_BROKER_REGISTRATION
_LEAVES = "leaves the in-sync sets, its leaderships move"
_FREED = f"{_LEAVES}; its session ends, so the id is free at once"


def _table() -> Iterator[Transition]:
    offline, fenced, online, stopping = BrokerControlState
    for state in BrokerControlState:
        kept = fenced if state is offline else state
        yield Transition(state, Event.REGISTER, Guard.SAME_INCARNATION, kept, effect=_UNCHANGED)
        if state is not offline:
            yield Transition(state, Event.REGISTER, Guard.TAKEN, state, error=_REFUSED)
        yield Transition(state, Event.REGISTER, Guard.FREE, fenced, effect=_NEW)
    waiting = (
        Transition(fenced, Event.FENCE, Guard.ALWAYS, fenced, True, False),
        Transition(
            fenced, Event.SERVE, Guard.CAUGHT_UP, online, False, False, effect="leaderless partitions come back to it"
        ),
        Transition(fenced, Event.SERVE, Guard.BEHIND, fenced, True, False),
        Transition(fenced, Event.STOP, Guard.ALWAYS, offline, True, True, effect="its session ends"),
        Transition(fenced, Event.GO, Guard.ALWAYS, offline, True, True, effect="its session ends"),
    )
    yield from (replace(transition, state=offline) for transition in waiting)
    yield from waiting
    yield Transition(online, Event.FENCE, Guard.ALWAYS, fenced, True, False, effect=_LEAVES)
    yield Transition(online, Event.SERVE, Guard.ALWAYS, online, False, False)
    yield Transition(online, Event.STOP, Guard.LEADS, stopping, False, False, effect=_LEAVES)
    yield Transition(online, Event.STOP, Guard.LEADS_NONE, offline, True, True, effect=_FREED)
    yield Transition(online, Event.GO, Guard.ALWAYS, offline, True, True, effect=_FREED)
    for event in (Event.FENCE, Event.SERVE, Event.STOP):
        yield Transition(stopping, event, Guard.MUST_WAIT, stopping, False, False)
        yield Transition(
            stopping, event, Guard.MAY_GO, offline, True, True, effect="its session ends, so the id is free"
        )
    yield Transition(stopping, Event.GO, Guard.ALWAYS, offline, True, True, effect=_FREED)
    yield Transition(offline, Event.SESSION_END, Guard.ALWAYS, offline)
    yield Transition(fenced, Event.SESSION_END, Guard.ALWAYS, offline)
    yield Transition(online, Event.SESSION_END, Guard.ALWAYS, offline, effect=_LEAVES)
    yield Transition(stopping, Event.SESSION_END, Guard.ALWAYS, offline)
    for state in BrokerControlState:
        yield Transition(state, Event.UNREGISTER, Guard.ALWAYS, None, effect=_LEAVES)


TRANSITIONS: tuple[Transition, ...] = tuple(_table())
_BY_CAUSE: Mapping[tuple[BrokerControlState, Event], tuple[Transition, ...]] = {
    (state, event): tuple(
        transition for transition in TRANSITIONS if (transition.state, transition.event) == (state, event)
    )
    for state in BrokerControlState
    for event in Event
}


def transitions(state: BrokerControlState, event: Event) -> tuple[Transition, ...]:
    """Exactly one of them has a guard that holds."""
    return _BY_CAUSE[state, event]


# The page


_HEAD = """# Broker states

Generated by `make crds` from `broker_runtime/controller/broker_states.py`. This is what the controller thinks of a
broker that is registered; `kubectl get brokerregistrations`, `sluicegate status` and `GET /brokers` of the active
controller show it.

| state | meaning | serves clients | in Metadata | may lead, may be in sync |
|---|---|---|---|---|
| Offline | no live session: not running, or at work on its own disk | no | no | no |
| Fenced | has a session, reads the metadata, or the controller or its operator wants it out | no | no | no |
| Online | has caught up with its own registration | yes | yes | yes |
| Stopping | a controlled shutdown has begun and the broker waits to be released | yes | yes | no |

A registration starts Fenced. The state is not written down as such: `fenced` and the offset at which a shutdown began
are in the metadata, sessions are in the memory of the active controller. A controller that takes over gives each broker
that is not fenced a whole new session. A broker that cannot reach the controller for a session fences itself.

Who leaves an in-sync set that becomes smaller than `min.insync.replicas` stays an eligible leader replica (KIP-966): it
has everything that was acknowledged. The set may become empty; then the partition has no leader until an eligible
replica is Online again (or `unclean.leader.election.enable` lets another one lead, and records be lost). A new
incarnation whose data is not whole (docs/reference/durability.md) is not eligible, unless it is the last that was.

## Every transition

*fenced* and *shut down* are the flags of the heartbeat's answer; the third, *caught up*, is true when the broker's
metadata offset has reached its own registration. A broker knows that another one stops when its metadata offset, by its
last heartbeat, has reached the record that began the shutdown.

| state | event | when | next state | fenced | shut down | effect |
|---|---|---|---|---|---|---|
"""

_TAIL = """
## What is refused

| error | when | what the broker does |
|---|---|---|
| INCONSISTENT_CLUSTER_ID (104) | it registers with the id of another cluster | ends: its data belongs elsewhere |
| DUPLICATE_BROKER_REGISTRATION (101) | another incarnation of its id is alive | at its start tries again, later ends |
| INVALID_REGISTRATION (119) | no incarnation id, no listeners, or two with one name | ends |
| UNSUPPORTED_VERSION (35) | the cluster's level of a feature is outside its range | ends |
| STALE_BROKER_EPOCH (77) | its heartbeat has an epoch that is not, or no longer, its own | registers anew |
| NOT_CONTROLLER (41) | the controller that it asked is not the active one | asks the next one |

A broker tries to register again for `initial.broker.registration.timeout.ms`.

## Different from Apache Kafka

- A clean stop, and a heartbeat with both WantFence and WantShutDown, end the session. Kafka keeps it, so that the next
  start of the same id waits for `broker.session.timeout.ms`.
- WantFence and WantShutDown release a Stopping broker too. The operator says so when the broker's pod or container
  is gone.
- A broker fences itself when it has lost the controller for a session. Kafka's goes on serving.
"""


def states_page() -> str:
    """docs/reference/broker-states.md."""
    by_state = [transition for state in BrokerControlState for transition in TRANSITIONS if transition.state is state]
    return _HEAD + "".join(f"| {' | '.join(_cells(transition))} |\n" for transition in by_state) + _TAIL


def _cells(transition: Transition) -> tuple[str, ...]:
    effect = f"refused: {transition.error.name}" if transition.error is not None else transition.effect
    return (
        transition.state.value,
        transition.event.value,
        transition.guard.value,
        "(not registered)" if transition.next is None else transition.next.value,
        *("" if flag is None else str(flag).lower() for flag in (transition.fenced, transition.shut_down)),
        effect,
    )
