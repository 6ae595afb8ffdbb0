"""From what happens in the broker to those who observe it: who wants it is found out before anything is made. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from broker_runtime.apis.call import Call, Ending
from broker_runtime.apis.observed import principal
from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection_notices import ConnectionNotice
from broker_runtime.observers.base import NoResponse
from broker_runtime.observers.context import RequestContext, TopicName
from broker_runtime.observers.in_service import ObserverInService
from broker_runtime.observers.layout import layout_of
from broker_runtime.observers.source import Source
from broker_runtime.observers.topics import topic_fields, topics_in
from broker_runtime.wire.messages import REQUEST_BYTES_MAX, message_type
from broker_runtime.wire.reply import FileRegion, Reply
from broker_runtime.wire.versions import API_VERSIONS, FETCH, FORMATS, PRODUCE

_WHY = {Ending.REFUSED: NoResponse.REFUSED, Ending.HUNG_UP: NoResponse.HUNG_UP, Ending.CANCELLED: NoResponse.CANCELLED}
_RESPONSE_HEADER_BYTES = 8
"""With the size field."""

Several = tuple[ObserverInService, ...]


class _Observation:
    """Who has seen a request; `undecided` are those who will see the response if it names a topic of theirs."""

    __slots__ = ("correlation_id", "seen", "undecided")

    def __init__(self, correlation_id: str, seen: list[ObserverInService], undecided: list[ObserverInService]) -> None:
        self.correlation_id = correlation_id
        self.seen = seen
        self.undecided = undecided


class ObserverHub:
    """Tells each observer of what it wants. Owns the tables that say who wants what; nothing of it is durable.

    It is the dispatcher's RequestObserver, and takes a server's ConnectionNotices. None of its methods raises.
    """

    def __init__(self, topic_name: TopicName, now: Callable[[], float]) -> None:
        self._topic_name = topic_name
        self._now = now
        self._by_api: dict[int, Several] = {}
        self._accounts: Several = ()
        self._connections: Several = ()

    def serve(self, observers: Sequence[ObserverInService]) -> None:
        """These are in service from here on, and no others."""
        with_requests = [one for one in observers if one.requests is not None]
        self._by_api = {
            key: tuple(one for one in with_requests if not one.filter.api_keys or key in one.filter.api_keys)
            for key in FORMATS
        }
        self._accounts = tuple(one for one in observers if one.account is not None)
        self._connections = tuple(one for one in observers if one.connections is not None)

    @property
    def wants_requests(self) -> bool:
        return bool(self._accounts) or any(self._by_api.values())

    @property
    def wants_connections(self) -> bool:
        return bool(self._connections)

    def connection_notice(self, notice: ConnectionNotice) -> None:
        now_s = self._now()
        for one in self._connections:
            wanted = one.filter.listeners
            assert one.connections is not None
            if one.account is not None:
                _unmeasured(one, one.connections.record_connection, notice)
            elif (not wanted or notice.listener in wanted) and not one.suspended(now_s):
                one.call(one.connections.record_connection, notice)

    def begun(self, call: Call, frame: memoryview, body_at: int) -> None:
        if self._accounts:
            call.keep_details()
        candidates = self._by_api[call.api.key]
        if candidates:
            self._request(candidates, call, frame, body_at)

    def ended(self, call: Call) -> None:
        for one in self._accounts:
            assert one.account is not None
            _unmeasured(one, one.account.record_call, call)
        observation = call.observation
        if observation is not None:
            call.observation = None
            self._ended(observation, call)

    def _request(self, candidates: Several, call: Call, frame: memoryview, body_at: int) -> None:
        kind = _kind(call, "Request")
        if kind is None or (len(frame) > REQUEST_BYTES_MAX and call.api.key != PRODUCE):
            return
        listener, who, now_s = call.listener, principal(call), call.received_s
        let_in = [one for one in candidates if one.filter.lets_in(listener, who) and not one.suspended(now_s)]
        source = Source(frame)
        wanting, undecided = self._by_topic(let_in, kind, source, body_at)
        if wanting or undecided:
            correlation_id = f"{call.connection.id}-{call.correlation_id}"
            call.observation = _Observation(correlation_id, wanting, undecided if call.api.key == FETCH else [])
        if wanting:
            context = source.context = RequestContext(call, self._topic_name, ended=False)
            layout = layout_of(kind)
            struct = layout.view_class(layout, source, body_at)
            address, key, version = call.connection.peer[0], call.api.key, call.version
            for one in wanting:
                assert one.requests is not None
                one.call(one.requests.record_request, struct, address, who, key, version, correlation_id)
            context.end()
        source.end()

    def _by_topic(
        self, observers: list[ObserverInService], kind: Any, source: Source, at: int
    ) -> tuple[list[ObserverInService], list[ObserverInService]]:
        """Those who want a message for the topics in it, and those who do not."""
        if not any(one.filter.topics for one in observers):
            return observers, []
        names = self._topics(kind, source, at)
        wanting: list[ObserverInService] = []
        others: list[ObserverInService] = []
        for one in observers:
            prefixes = one.filter.topics
            wanted = not prefixes or any(name.startswith(prefixes) for name in names)
            (wanting if wanted else others).append(one)
        return wanting, others

    def _topics(self, kind: Any, source: Source, at: int) -> set[str]:
        try:
            found = set(topics_in(topic_fields(kind), source, at))
        except ProtocolError:
            # Its handler refuses it.
            return set()
        names = {named if isinstance(named, str) else self._topic_name(named) for named in found}
        return {name for name in names if name is not None}

    def _ended(self, observation: _Observation, call: Call) -> None:
        if call.ending is Ending.ANSWERED and call.reply:
            self._response(observation, call)
            return
        why = _WHY.get(call.ending, NoResponse.NOT_WANTED)
        for one in observation.seen:
            if one.unanswered is not None and not one.suspended(call.completed_s):
                one.call(one.unanswered.record_no_response, why, call.version, observation.correlation_id)

    def _response(self, observation: _Observation, call: Call) -> None:
        kind = _kind(call, "Response")
        if kind is None:
            return
        at = _RESPONSE_HEADER_BYTES + (call.flexible and call.api.key != API_VERSIONS)
        source = _source(call.reply)
        seeing = observation.seen
        if observation.undecided:
            seeing = seeing + self._by_topic(observation.undecided, kind, source, at)[0]
        if seeing:
            context = source.context = RequestContext(call, self._topic_name, ended=True)
            layout = layout_of(kind)
            struct = layout.view_class(layout, source, at)
            for one in seeing:
                if not one.suspended(call.completed_s):
                    assert one.requests is not None
                    one.call(one.requests.record_response, struct, call.version, observation.correlation_id)
            context.end()
        source.end()


def _unmeasured(one: ObserverInService, method: Callable[[Any], None], told: Call | ConnectionNotice) -> None:
    """The broker's own observers are as quick as they can be, and are not watched for it."""
    try:
        method(told)
    except Exception as error:  # noqa: BLE001 - it is counted and logged
        one.failed(error)


def _kind(call: Call, direction: str) -> Any:
    """None for a version that is not served: such a request is answered without being read."""
    low, high = call.api.versions
    return message_type(call.api.key, call.version, direction) if low <= call.version <= high else None


def _source(reply: Reply) -> Source:
    """The bytes of a response, without those that are sent from files."""
    if len(reply) == 1:
        (only,) = reply
        if not isinstance(only, FileRegion):
            return Source(memoryview(only))
    parts: list[bytes] = []
    regions: dict[int, FileRegion] = {}
    size = 0
    for chunk in reply:
        if isinstance(chunk, FileRegion):
            regions[size] = chunk
        else:
            parts.append(bytes(chunk))
            size += len(chunk)
    return Source(b"".join(parts), regions)
