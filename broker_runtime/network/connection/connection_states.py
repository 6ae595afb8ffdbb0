"""States of a connection, and the transition for each event. The documentation page is generated from this table. Pure.

`ConnectionMachine` follows the table: an event that is not allowed in a state is a bug in the broker, and raises.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple


class ConnectionState(IntEnum):
    """The state of a connection.

    The broker reads from a connection while it is Reading. It also reads while it is Awaiting replies to produce
    requests, behind which others may be handled. Otherwise the client is muted, as in Kafka.
    """

    READING = 0
    SERVING = 1
    QUEUED = 2
    AWAITING = 3
    SENDING = 4
    SHORT_OF_MEMORY = 5
    THROTTLED = 6
    ENDING = 7
    CLOSED = 8


class ConnectionEvent(IntEnum):
    """An event of a connection, caused by its client, its socket or the broker. `MEANING_OF_EVENT` describes each."""

    BYTES = 0
    NO_MEMORY = 1
    MEMORY = 2
    SLICE = 3
    SERVED = 4
    DEFERRED = 5
    REPLY_WITH_MORE = 6
    REPLY = 7
    SENT = 8
    SENT_WITH_MORE = 9
    SENT_THROTTLED = 10
    UNTHROTTLED = 11
    UNTHROTTLED_WITH_MORE = 12
    PUSH = 13
    END_OF_STREAM = 14
    LOST = 15
    OVERDUE = 16
    REFUSE = 17
    FINISH = 18
    CLOSE = 19


class UnknownEventError(RuntimeError):
    """Error for an event of a connection that is not allowed in the connection's state."""


def _table() -> Iterator[tuple[ConnectionState, ConnectionEvent, ConnectionState]]:
    reading, serving, queued, awaiting, sending, short, throttled, ending, closed = ConnectionState
    open_states = (reading, serving, queued, awaiting, sending, short, throttled, ending)
    yield reading, ConnectionEvent.BYTES, serving
    yield reading, ConnectionEvent.NO_MEMORY, short
    yield reading, ConnectionEvent.END_OF_STREAM, closed
    yield reading, ConnectionEvent.OVERDUE, closed
    yield short, ConnectionEvent.MEMORY, reading
    yield queued, ConnectionEvent.SLICE, serving
    yield serving, ConnectionEvent.SERVED, sending
    yield serving, ConnectionEvent.DEFERRED, awaiting
    yield awaiting, ConnectionEvent.BYTES, serving
    yield awaiting, ConnectionEvent.REPLY_WITH_MORE, awaiting
    yield awaiting, ConnectionEvent.REPLY, sending
    yield sending, ConnectionEvent.SENT, reading
    yield sending, ConnectionEvent.SENT_WITH_MORE, queued
    yield sending, ConnectionEvent.SENT_THROTTLED, throttled
    yield throttled, ConnectionEvent.UNTHROTTLED, reading
    yield throttled, ConnectionEvent.UNTHROTTLED_WITH_MORE, queued
    # A connection that is to end finishes its current requests up to their replies, and nothing more.
    yield ending, ConnectionEvent.SERVED, ending
    yield ending, ConnectionEvent.DEFERRED, ending
    yield ending, ConnectionEvent.REPLY_WITH_MORE, ending
    yield ending, ConnectionEvent.REPLY, ending
    yield ending, ConnectionEvent.SENT, closed
    yield ending, ConnectionEvent.SENT_WITH_MORE, closed
    yield ending, ConnectionEvent.SENT_THROTTLED, closed
    after_push = {serving: serving, awaiting: awaiting, ending: ending}
    for state in open_states:
        yield state, ConnectionEvent.PUSH, after_push.get(state, sending)
    for state in open_states:
        # Requests that have arrived are handled: a producer with acks=0 that disconnects does not wait for a response.
        yield state, ConnectionEvent.LOST, queued if state is queued else closed
        yield state, ConnectionEvent.REFUSE, closed
        yield state, ConnectionEvent.FINISH, ending if state in (serving, awaiting, sending, ending) else closed
        yield state, ConnectionEvent.CLOSE, closed
    # A handler may close its own connection, other code may keep a reference for a while, and a reply may come late.
    for event in (
        ConnectionEvent.SERVED,
        ConnectionEvent.DEFERRED,
        ConnectionEvent.REPLY_WITH_MORE,
        ConnectionEvent.REPLY,
        ConnectionEvent.PUSH,
        ConnectionEvent.REFUSE,
        ConnectionEvent.FINISH,
        ConnectionEvent.CLOSE,
    ):
        yield closed, event, closed


TABLE: Mapping[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (state, event): after for state, event, after in _table()
}
AFTER: tuple[tuple[ConnectionState | None, ...], ...] = tuple(
    tuple(TABLE.get((state, event)) for state in ConnectionState) for event in ConnectionEvent
)
"""The state after each event, by event and then by state, for fast access.

None if the event is not allowed in the state.
"""


def after(state: ConnectionState, event: ConnectionEvent) -> ConnectionState:
    """Return the state after `event`. Raises UnknownEventError for an event that is not allowed in `state`."""
    next_state = AFTER[event][state]
    if next_state is None:
        raise unknown(state, event)
    return next_state


def unknown(state: ConnectionState, event: ConnectionEvent) -> UnknownEventError:
    return UnknownEventError(f"a connection in state {name_of(state)} cannot get the event: {MEANING_OF_EVENT[event]}")


def name_of(state: ConnectionState) -> str:
    return state.name.replace("_", " ").capitalize()


MEANING_OF_STATE: Mapping[ConnectionState, str] = {
    ConnectionState.READING: "no response is pending; a request may have arrived in part",
    ConnectionState.SERVING: "the broker handles requests, within one call",
    ConnectionState.QUEUED: "complete requests have arrived and wait for the connection's next time slice",
    ConnectionState.AWAITING: "replies will follow later: to a fetch that waits for records, or to produce requests",
    ConnectionState.SENDING: "replies are being sent; the socket may not accept more at the moment",
    ConnectionState.SHORT_OF_MEMORY: "a request needs more memory than queued.max.request.bytes has free",
    ConnectionState.THROTTLED: "all replies are sent; the client exceeds a quota, so no request is read (KIP-219)",
    ConnectionState.ENDING: "the broker answers the requests that it has read, then closes the connection (shutdown)",
    ConnectionState.CLOSED: "the socket is closed, and the parts of the broker that waited for the end are notified",
}


class ConnectionData(NamedTuple):
    """Data of a `ConnectionMachine` beside its state: the states in which it may exist, and its meaning."""

    states: frozenset[ConnectionState]
    meaning: str


_EXCEPT_CLOSED = frozenset(ConnectionState) - {ConnectionState.CLOSED}
DATA: Mapping[str, ConnectionData] = {
    "request": ConnectionData(
        frozenset({ConnectionState.SERVING, ConnectionState.ENDING}), "a handler has the request and has not returned"
    ),
    "owed": ConnectionData(
        frozenset({ConnectionState.SERVING, ConnectionState.AWAITING, ConnectionState.ENDING}),
        "the reply to a request is pending; replies behind it wait for it",
    ),
    "outgoing": ConnectionData(
        frozenset({ConnectionState.SERVING, ConnectionState.AWAITING, ConnectionState.SENDING, ConnectionState.ENDING}),
        "replies or other frames are not sent yet",
    ),
    "blocked": ConnectionData(
        frozenset({ConnectionState.AWAITING, ConnectionState.SENDING, ConnectionState.ENDING}),
        "the socket accepts no more bytes at the moment; only while `outgoing` exists",
    ),
    "complete request": ConnectionData(
        _EXCEPT_CLOSED - {ConnectionState.READING, ConnectionState.SHORT_OF_MEMORY},
        "a whole request has arrived and is not handled yet",
    ),
    "throttle": ConnectionData(
        _EXCEPT_CLOSED - {ConnectionState.SHORT_OF_MEMORY},
        "the client exceeds a quota until `throttled_until_s`: nothing is read in Throttled and Awaiting",
    ),
    "is_heavy": ConnectionData(
        frozenset(ConnectionState), "the last request blocked the event loop for long; takes effect in Reading"
    ),
    "problem": ConnectionData(
        frozenset(ConnectionState), "why the connection will be refused, once `outgoing` is sent"
    ),
}
"""All data of a connection beside its state. Outside of its states the data does not exist."""

MEANING_OF_EVENT: Mapping[ConnectionEvent, str] = {
    ConnectionEvent.BYTES: "bytes have arrived",
    ConnectionEvent.NO_MEMORY: "memory for the rest of a request is missing",
    ConnectionEvent.MEMORY: "memory is free again",
    ConnectionEvent.SLICE: "the connection's time slice begins",
    ConnectionEvent.SERVED: "the requests of this time slice are answered",
    ConnectionEvent.DEFERRED: "the reply to a request will follow later",
    ConnectionEvent.REPLY_WITH_MORE: "a pending reply is ready, and another one is pending",
    ConnectionEvent.REPLY: "the last pending reply is ready",
    ConnectionEvent.SENT: "all replies are sent",
    ConnectionEvent.SENT_WITH_MORE: "all replies are sent, and complete requests are left",
    ConnectionEvent.SENT_THROTTLED: "all replies are sent, and the client exceeds a quota",
    ConnectionEvent.UNTHROTTLED: "the throttle time has ended",
    ConnectionEvent.UNTHROTTLED_WITH_MORE: "the throttle time has ended, and complete requests are left",
    ConnectionEvent.PUSH: "a frame that is not a reply is ready to be sent",
    ConnectionEvent.END_OF_STREAM: "the client has closed its side",
    ConnectionEvent.LOST: "the socket has failed, or the peer has disconnected",
    ConnectionEvent.OVERDUE: "a request has not arrived in time",
    ConnectionEvent.REFUSE: "the broker refuses what the client sent",
    ConnectionEvent.FINISH: "the server is shutting down",
    ConnectionEvent.CLOSE: "the server closes the connection",
}
