"""Dispatches requests and connections to observers: selects those that want one before it builds any view. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from broker_runtime.apis.request.call import Call, Ending
from broker_runtime.apis.request.observed import principal
from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.connection_notices import ConnectionNotice
from broker_runtime.observers.base import NoResponse
from broker_runtime.observers.layout import layout_of
from broker_runtime.observers.running.in_service import ObserverInService
from broker_runtime.observers.source import MessageSource
from broker_runtime.observers.surroundings import TopicName
from broker_runtime.observers.topics import topic_fields, topics_in
from broker_runtime.wire.messages import message_type
from broker_runtime.wire.reply import FileRegion, Reply
from broker_runtime.wire.versions import API_VERSIONS, FETCH, FORMATS, PRODUCE

_WHY = {Ending.REFUSED: NoResponse.REFUSED, Ending.HUNG_UP: NoResponse.HUNG_UP, Ending.CANCELLED: NoResponse.CANCELLED}
_SHOWN_BYTES_MAX = 1024 * 1024
"""Maximum size of a request that observers see, in bytes; Produce requests have no limit."""
_RESPONSE_HEADER_BYTES = 8
"""Size of the response header, including the size field."""

Several = tuple[ObserverInService, ...]
_Observation = tuple[str, Sequence[ObserverInService], Sequence[ObserverInService]]
"""State of a request that was shown: its correlation ID, the observers that saw it, and undecided observers.

The undecided observers see the response if it names one of their topics.
"""


class _Wanting:
    """The observers that want an API. `all_of_it` is True if none of them filters its requests.

    `noting` are the broker's own observers that note something of its requests.
    """

    __slots__ = ("all_of_it", "noting", "services")

    def __init__(self, services: Several, noting: Several) -> None:
        self.services = services
        self.noting = noting
        self.all_of_it = not any(one.filter.listeners or one.filter.principals or one.filter.topics for one in services)


class ObserverHub:
    """Passes requests and connections to the observers that want them. Nothing is durable.

    It is the dispatcher's RequestObserver, and receives a server's ConnectionNotices. No method raises, except `begun`
    if an observer refuses requests.
    """

    def __init__(self, topic_name: TopicName, now: Callable[[], float]) -> None:
        self._topic_name = topic_name
        self._now = now
        self._by_api: dict[int, _Wanting] = {}
        self._accounts: tuple[tuple[Callable[[Call], None], ObserverInService], ...] = ()
        self._connections: tuple[tuple[Callable[[ConnectionNotice], None], ObserverInService], ...] = ()
        self._refusing: tuple[Callable[[Call], bool], ...] = ()

    def serve(self, observers: Sequence[ObserverInService]) -> None:
        """Put exactly these observers into service."""
        with_requests = [one for one in observers if one.sees_requests]
        by_api = {
            key: tuple(one for one in with_requests if not one.filter.api_keys or key in one.filter.api_keys)
            for key in FORMATS
        }
        noting = {key: tuple(one for one in observers if key in one.noted_apis) for key in FORMATS}
        self._by_api = {
            key: _Wanting(services, noting[key]) for key, services in by_api.items() if services or noting[key]
        }
        self._accounts = tuple((one.record_call, one) for one in observers if one.record_call is not None)
        self._connections = tuple(
            (one.record_connection, one) for one in observers if one.record_connection is not None
        )
        self._refusing = tuple(one.refuses for one in observers if one.refuses is not None)

    @property
    def wants_requests(self) -> bool:
        return bool(self._accounts or self._by_api)

    @property
    def wants_connections(self) -> bool:
        return bool(self._connections)

    def connection_notice(self, notice: ConnectionNotice) -> None:
        now_s = self._now()
        for record_connection, one in self._connections:
            wanted = one.filter.listeners
            if one.record_call is not None:
                _unmeasured(one, record_connection, notice)
            elif (not wanted or notice.listener in wanted) and not one.suspended(now_s):
                one.call(record_connection, notice)

    def begun(self, call: Call, frame: memoryview, body_at: int) -> None:
        if self._accounts:
            call.keep_details()
        if self._refusing and any(refuses(call) for refuses in self._refusing):
            raise ProtocolError("not-recorded", "requests must be recorded, and the audit log cannot record them now")
        wanting = self._by_api.get(call.api.key)
        if wanting is not None:
            for one in wanting.noting:
                _note(one, call, frame, body_at)
            if wanting.services:
                self._request(wanting, call, frame, body_at)

    def ended(self, call: Call) -> None:
        # The broker's own observers are as fast as possible, and have no budget.
        for record_call, one in self._accounts:
            try:
                record_call(call)
            except Exception as error:  # noqa: BLE001 - it is counted and logged
                one.failed(error)
        observation = call.observation
        if observation is not None:
            call.observation = None
            self._ended(observation, call)

    def _request(self, candidates: _Wanting, call: Call, frame: memoryview, body_at: int) -> None:
        key, version, now_s = call.api.key, call.version, call.received_s
        low, high = call.api.versions
        if not low <= version <= high:
            # A request of an unsupported version is answered without being read.
            return
        kind: Any = message_type(key, version, "Request")
        if len(frame) > _SHOWN_BYTES_MAX and key != PRODUCE:
            return
        connection, who = call.connection, principal(call)
        source = MessageSource(frame)
        seen: Sequence[ObserverInService] = candidates.services
        undecided: Sequence[ObserverInService] = ()
        if not candidates.all_of_it:
            let_in = [one for one in seen if one.filter.lets_in(connection.listener, who)]
            seen, undecided = self._by_topic(let_in, kind, source, body_at)
        if not seen and not (undecided and key == FETCH):
            return
        correlation_id = f"{connection.id}-{call.correlation_id}"
        told: list[ObserverInService] = []
        call.observation = (correlation_id, told, undecided if key == FETCH else ())
        if seen:
            source.about = (call, self._topic_name, False)
            struct = layout_of(kind).view_class(source, body_at)
            address = connection.peer[0]
            for one in seen:
                if not one.suspended(now_s):
                    told.append(one)
                    one.call(one.record_request, struct, address, who, key, version, correlation_id)
        source.end()

    def _by_topic(
        self, observers: Sequence[ObserverInService], kind: Any, source: MessageSource, at: int
    ) -> tuple[Sequence[ObserverInService], Sequence[ObserverInService]]:
        """Return the observers that want a message because of its topics, and those that do not."""
        if not any(one.filter.topics for one in observers):
            return observers, ()
        names = self._topics(kind, source, at)
        wanting: list[ObserverInService] = []
        others: list[ObserverInService] = []
        for one in observers:
            prefixes = one.filter.topics
            wanted = not prefixes or any(name.startswith(prefixes) for name in names)
            (wanting if wanted else others).append(one)
        return wanting, others

    def _topics(self, kind: Any, source: MessageSource, at: int) -> set[str]:
        try:
            found = set(topics_in(topic_fields(kind), source, at))
        except ProtocolError:
            # The handler of the request refuses it.
            return set()
        names = {named if isinstance(named, str) else self._topic_name(named) for named in found}
        return {name for name in names if name is not None}

    def _ended(self, observation: _Observation, call: Call) -> None:
        if call.ending is Ending.ANSWERED and call.reply:
            self._response(observation, call)
            return
        correlation_id, seen, _ = observation
        why = _WHY.get(call.ending, NoResponse.NOT_WANTED)
        for one in seen:
            if one.record_no_response is not None and not one.suspended(call.completed_s):
                one.call(one.record_no_response, why, call.version, correlation_id)

    def _response(self, observation: _Observation, call: Call) -> None:
        kind: Any = message_type(call.api.key, call.version, "Response")
        correlation_id, seen, undecided = observation
        at = _RESPONSE_HEADER_BYTES + (call.flexible and call.api.key != API_VERSIONS)
        source = _source(call.reply)
        if undecided:
            seen = (*seen, *self._by_topic(undecided, kind, source, at)[0])
        if seen:
            source.about = (call, self._topic_name, True)
            struct = layout_of(kind).view_class(source, at)
            for one in seen:
                if not one.suspended(call.completed_s):
                    one.call(one.record_response, struct, call.version, correlation_id)
        source.end()


def _note(one: ObserverInService, call: Call, frame: memoryview, body_at: int) -> None:
    try:
        if one.note is not None:
            one.note(call, frame, body_at)
    except Exception as error:  # noqa: BLE001 - it is counted and logged
        one.failed(error)


def _unmeasured(one: ObserverInService, tell: Callable[[ConnectionNotice], None], notice: ConnectionNotice) -> None:
    try:
        tell(notice)
    except Exception as error:  # noqa: BLE001 - it is counted and logged
        one.failed(error)


def _source(reply: Reply) -> MessageSource:
    """Return the bytes of a response, without those that are sent from files."""
    if len(reply) == 1:
        (only,) = reply
        if not isinstance(only, FileRegion):
            return MessageSource(memoryview(only))
    parts: list[bytes] = []
    regions: dict[int, FileRegion] = {}
    size = 0
    for chunk in reply:
        if isinstance(chunk, FileRegion):
            regions[size] = chunk
        else:
            parts.append(bytes(chunk))
            size += len(chunk)
    return MessageSource(b"".join(parts), regions)
