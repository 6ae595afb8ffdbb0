"""What a connection may be doing, and what each event makes of it: the one table, and the page made from it. Pure.

`ConnectionMachine` keeps to it: an event that a state does not know is a mistake of ours, and raises.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum


class State(IntEnum):
    """Only a connection that is Reading is read from; in all other states the client is muted, as in Kafka."""

    READING = 0
    SERVING = 1
    QUEUED = 2
    AWAITING = 3
    SENDING = 4
    SHORT_OF_MEMORY = 5
    THROTTLED = 6
    ENDING = 7
    CLOSED = 8


class Event(IntEnum):
    """What happens to a connection, by its client, its socket or the broker; `MEANING_OF_EVENT` says it in words."""

    BYTES = 0
    NO_MEMORY = 1
    MEMORY = 2
    TURN = 3
    SERVED = 4
    DEFERRED = 5
    REPLY = 6
    SENT = 7
    SENT_WITH_MORE = 8
    SENT_THROTTLED = 9
    UNTHROTTLED = 10
    UNTHROTTLED_WITH_MORE = 11
    PUSH = 12
    END_OF_STREAM = 13
    LOST = 14
    OVERDUE = 15
    REFUSE = 16
    FINISH = 17
    CLOSE = 18


class UnknownEventError(RuntimeError):
    """Something happened to a connection that cannot happen in its state."""


def _table() -> Iterator[tuple[State, Event, State]]:
    reading, serving, queued, awaiting, sending, short, throttled, ending, closed = State
    open_states = (reading, serving, queued, awaiting, sending, short, throttled, ending)
    yield reading, Event.BYTES, serving
    yield reading, Event.NO_MEMORY, short
    yield reading, Event.END_OF_STREAM, closed
    yield reading, Event.OVERDUE, closed
    yield short, Event.MEMORY, reading
    yield queued, Event.TURN, serving
    yield serving, Event.SERVED, sending
    yield serving, Event.DEFERRED, awaiting
    yield awaiting, Event.REPLY, sending
    yield sending, Event.SENT, reading
    yield sending, Event.SENT_WITH_MORE, queued
    yield sending, Event.SENT_THROTTLED, throttled
    yield throttled, Event.UNTHROTTLED, reading
    yield throttled, Event.UNTHROTTLED_WITH_MORE, queued
    # What is under way when a connection is to end goes on as far as its replies, and no further.
    yield ending, Event.SERVED, ending
    yield ending, Event.DEFERRED, ending
    yield ending, Event.REPLY, ending
    yield ending, Event.SENT, closed
    yield ending, Event.SENT_WITH_MORE, closed
    yield ending, Event.SENT_THROTTLED, closed
    after_push = {serving: serving, awaiting: awaiting, ending: ending}
    for state in open_states:
        yield state, Event.PUSH, after_push.get(state, sending)
    for state in open_states:
        # Requests that have arrived are carried out: who produces with acks=0 and goes has waited for nothing.
        yield state, Event.LOST, queued if state is queued else closed
        yield state, Event.REFUSE, closed
        yield state, Event.FINISH, ending if state in (serving, awaiting, sending, ending) else closed
        yield state, Event.CLOSE, closed
    # A handler may close its own connection, others may hold it for a while, and a reply may come late.
    for event in (Event.SERVED, Event.DEFERRED, Event.REPLY, Event.PUSH, Event.REFUSE, Event.FINISH, Event.CLOSE):
        yield closed, event, closed


TABLE: Mapping[tuple[State, Event], State] = {(state, event): after for state, event, after in _table()}
AFTER: tuple[tuple[State | None, ...], ...] = tuple(
    tuple(TABLE.get((state, event)) for state in State) for event in Event
)
"""The same by event and then by state, for whoever is in a hurry; None where the state does not know the event."""


def unknown(state: State, event: Event) -> UnknownEventError:
    return UnknownEventError(f"a connection that is {name_of(state)} cannot have: {MEANING_OF_EVENT[event]}")


# The page


MEANING_OF_STATE: Mapping[State, str] = {
    State.READING: "nothing is owed; of a request a part may have arrived",
    State.SERVING: "requests are being handled, within one call",
    State.QUEUED: "complete requests have arrived, and wait for the connection's next turn",
    State.AWAITING: "the last request is answered later, for example a fetch that waits for records",
    State.SENDING: "replies are to be sent, and the socket may take no more for now",
    State.SHORT_OF_MEMORY: "a request has begun to arrive and may not have more of queued.max.request.bytes for now",
    State.THROTTLED: "everything is sent, and the client is over a quota: it is neither read nor answered (KIP-219)",
    State.ENDING: "what has been taken is answered, then the connection closes (shutdown)",
    State.CLOSED: "the socket is closed, and who waited for the end has been told",
}

MEANING_OF_EVENT: Mapping[Event, str] = {
    Event.BYTES: "bytes have arrived",
    Event.NO_MEMORY: "there is no memory for more of a request",
    Event.MEMORY: "there is memory again",
    Event.TURN: "its turn has come",
    Event.SERVED: "the requests of this turn are answered",
    Event.DEFERRED: "a request is to be answered later",
    Event.REPLY: "the awaited reply is there",
    Event.SENT: "everything is sent",
    Event.SENT_WITH_MORE: "everything is sent, and complete requests are left",
    Event.SENT_THROTTLED: "everything is sent, and the client is over a quota",
    Event.UNTHROTTLED: "the throttle time is over",
    Event.UNTHROTTLED_WITH_MORE: "the throttle time is over, and complete requests are left",
    Event.PUSH: "a frame that answers nothing is to be sent",
    Event.END_OF_STREAM: "the client has ended its side",
    Event.LOST: "the socket has failed, or the peer is gone",
    Event.OVERDUE: "a request has not arrived in time",
    Event.REFUSE: "what the client sent is refused",
    Event.FINISH: "the server is shutting down",
    Event.CLOSE: "the server closes the connection",
}

_HEAD = """# Connection states

Generated by `make crds` from `broker_runtime/network/connection_states.py`: what a broker does with one connection.
Requests are answered strictly in their order, so a connection is read only while nothing is owed to it.

| state | meaning | read |
|---|---|---|
"""

_EVENTS_HEAD = """
## Every event

A state that is not named has no such event; it would be a mistake of the broker's own, and raises.

| event | in | makes it |
|---|---|---|
"""

_TAIL = """
## The end of a client's side

A client may end its side (`shutdown(SHUT_WR)`) and go on reading. As in Apache Kafka it is not looked for while a reply
is owed: every complete request that has arrived before it is answered first, and the end is met when reading goes on.
A connection that is reset has nobody to answer; requests of it that wait for their turn are carried out all the same.
"""


def name_of(state: State) -> str:
    return state.name.replace("_", " ").capitalize()


def states_page() -> str:
    """docs/reference/connection-states.md."""
    states = "".join(
        f"| {name_of(state)} | {MEANING_OF_STATE[state]} | {'yes' if state is State.READING else 'no'} |\n"
        for state in State
    )
    rows = "".join(
        f"| {MEANING_OF_EVENT[event]} | {', '.join(map(name_of, states_before))} | {name_of(after)} |\n"
        for event in Event
        for after in State
        if (states_before := [state for state in State if TABLE.get((state, event)) is after])
    )
    return _HEAD + states + _EVENTS_HEAD + rows + _TAIL
