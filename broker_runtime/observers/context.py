"""Who has sent a request and how, beside what stands in it: `struct.context`. Pure."""

from collections.abc import Callable
from uuid import UUID

from broker_runtime.apis.call import Call, ClientSoftware
from broker_runtime.apis.observed import answer_bytes, client_software, error_code, principal
from broker_runtime.observers.source import OutlivedError

TopicName = Callable[[UUID], str | None]


class RequestContext:
    """Of one request, and with its response of that, too. Valid during the call, as the struct is."""

    __slots__ = ("_call", "_ended", "_topic_name")

    def __init__(self, call: Call, topic_name: TopicName, *, ended: bool) -> None:
        self._call: Call | None = call
        self._topic_name = topic_name
        self._ended = ended

    def end(self) -> None:
        """The call to the observers is over."""
        self._call = None

    def _valid(self) -> Call:
        if self._call is None:
            raise OutlivedError("this context was valid during the call that it was given to, and that is over")
        return self._call

    @property
    def api_name(self) -> str:
        return self._valid().api.name

    @property
    def listener(self) -> str:
        return self._valid().listener

    @property
    def principal(self) -> str:
        return principal(self._valid())

    @property
    def client_id(self) -> str | None:
        return self._valid().client_id

    @property
    def client_software(self) -> ClientSoftware | None:
        """Name and version of the client's library; None where it has told neither."""
        return client_software(self._valid())

    @property
    def client(self) -> tuple[str, int]:
        """Address and port."""
        return self._valid().connection.peer

    @property
    def request_bytes(self) -> int:
        return self._valid().request_bytes

    @property
    def response_bytes(self) -> int:
        """0 with a request."""
        return answer_bytes(self._valid()) if self._ended else 0

    @property
    def duration_s(self) -> float:
        """From the reading of the request to its response, waits included; 0 with a request."""
        call = self._valid()
        return call.completed_s - call.received_s if self._ended else 0.0

    @property
    def error_code(self) -> int:
        """One of those in the response, 0 when there is none. What the controller has answered is not looked into."""
        call = self._valid()
        return error_code(call) if self._ended else 0

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Of a topic that the message names by its id; None when this broker does not know it."""
        self._valid()
        return None if topic_id is None else self._topic_name(topic_id)


class LazyContext:
    """Makes the context when somebody asks for it, and ends it with the call."""

    __slots__ = ("_call", "_ended", "_made", "_topic_name")

    def __init__(self, call: Call, topic_name: TopicName, *, ended: bool) -> None:
        self._call = call
        self._topic_name = topic_name
        self._ended = ended
        self._made: RequestContext | None = None

    def get(self) -> RequestContext:
        if self._made is None:
            self._made = RequestContext(self._call, self._topic_name, ended=self._ended)
        return self._made

    def end(self) -> None:
        if self._made is not None:
            self._made.end()
