"""Facts about a request beyond its fields, such as its sender: `struct.context`. Pure."""

from uuid import UUID

from broker_runtime.apis.request.call import Call, ClientSoftware
from broker_runtime.apis.request.observed import answer_bytes, client_software, error_code, principal
from broker_runtime.observers.source import MessageSource, OutlivedError
from broker_runtime.observers.surroundings import TopicName

About = tuple[Call, TopicName, bool]
"""The source of a context: the call, the function that resolves topic IDs, and whether the call has ended."""


class RequestContext:
    """The context of one request, or of its response. Valid during the call of the observer, like the struct."""

    __slots__ = ("_source",)

    def __init__(self, source: MessageSource) -> None:
        self._source = source

    def _valid(self) -> Call:
        about: About | None = self._source.about
        if about is None:
            raise OutlivedError("this context was valid only during the call that received it, and that call has ended")
        return about[0]

    @property
    def _ended(self) -> bool:
        return bool(self._source.about[2])

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
        """Return name and version of the client's library; None if the client has sent neither."""
        return client_software(self._valid())

    @property
    def client(self) -> tuple[str, int]:
        """Return the address and port of the client."""
        return self._valid().connection.peer

    @property
    def request_bytes(self) -> int:
        return self._valid().request_bytes

    @property
    def response_bytes(self) -> int:
        """Return the size of the response in bytes; 0 while only the request has been observed."""
        call = self._valid()
        return answer_bytes(call) if self._ended else 0

    @property
    def duration_s(self) -> float:
        """Return the seconds from reading the request to its response; 0 while there is no response.

        Waits count.
        """
        call = self._valid()
        return call.completed_s - call.received_s if self._ended else 0.0

    @property
    def error_code(self) -> int:
        """Return one of the error codes in the response; 0 without an error.

        Responses that the broker forwards from the controller are not searched.
        """
        call = self._valid()
        return error_code(call) if self._ended else 0

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Return the name of a topic that the message names by its ID; None if this broker does not know the topic."""
        self._valid()
        found: str | None = None if topic_id is None else self._source.about[1](topic_id)
        return found
