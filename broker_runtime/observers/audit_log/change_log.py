"""Records requests that change something: their rows of the table `change`, and their error code.

The answer of such a request is looked through before the request is recorded, in slices of the event loop if it is
long. Its events are counted as owed until then, so that a kill -9 does not lose them unnoticed. Answers that wait take
memory: if they exceed the limit, the next ones are recorded without being looked through.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.observed import answer_bytes
from broker_runtime.observers.audit_log.changes.asked import Seen
from broker_runtime.observers.audit_log.changes.change import ChangeLimits, NotedChange, ToldRow
from broker_runtime.observers.audit_log.changes.first_items import first_items
from broker_runtime.observers.audit_log.clients import AuditedClient
from broker_runtime.observers.audit_log.layout import UNKNOWN_ERROR
from broker_runtime.observers.audit_log.writer import EventWriter
from broker_runtime.observers.surroundings import MetadataBefore
from broker_runtime.slicing.steps import Steps, at_once
from broker_runtime.wire.encoding.reader import RequestReader

_ROWS_OF_A_STEP: Final = 16
_STEPS_AT_CLOSE: Final = 5_000
"""Steps in which `close` looks through answers: 40 to 120 ms, enough for the answers to thousands of changes."""


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Limits of the changes of one request, and of the bytes of answers that wait to be read for outcomes."""

    of_a_request: ChangeLimits = field(default_factory=ChangeLimits)
    waiting_bytes: int = 16 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Pending:
    """A call whose answer waits to be looked through. `telling` records it, some rows in each step."""

    call: Call
    change: NotedChange
    telling: Iterator[None]
    bytes: int
    is_looked_through: bool = False


class ChangeLog:
    """Records requests that change something, with their outcomes. `close` records those that wait."""

    def __init__(
        self, writer: EventWriter, settings: ChangeSettings, metadata: MetadataBefore, shown: Callable[[str], str]
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._seen = Seen(metadata, shown)
        self._pending: dict[Call, _Pending] = {}
        self._waiting_bytes = 0

    def note(self, call: Call) -> None:
        """Note the changes in a request of an API of `asked.API_KEYS`, as soon as it is read.

        Raises ProtocolError for a malformed request.
        """
        key, request = call.api.key, call.request
        change = NotedChange(self._settings.of_a_request, self._seen)
        if isinstance(request, RequestReader):
            position, counts = request.position, request.counts
            try:
                first, further = first_items(key, request)
            finally:
                request.go_back(position, counts)
            at_once(change.read(key, first, further))
        elif request is not None:
            at_once(change.read(key, request))
        call.notes = change

    def record(self, call: Call, client: AuditedClient) -> None:
        """Record the changes of a noted call that has ended."""
        change = call.notes
        assert isinstance(change, NotedChange)
        size = answer_bytes(call)
        self._writer.owe(1 + change.events)
        telling = self._telling(call, client, change, 1 + change.events)
        if self._pending and self._waiting_bytes + size > self._settings.waiting_bytes:
            _run(telling)
            return
        pending = self._pending[call] = _Pending(call, change, telling, size)
        self._waiting_bytes += size
        call.completion.slices.do(self._recording(pending))

    def close(self) -> None:
        """Record all that wait. Outcomes of answers that take more than _STEPS_AT_CLOSE together stay unknown."""
        left = _STEPS_AT_CLOSE
        for pending in list(self._pending.values()):
            self._done(pending)
            if not pending.is_looked_through:
                left -= sum(1 for _ in islice(pending.change.look_through(pending.call), left))
            _run(pending.telling)

    def _recording(self, pending: _Pending) -> Steps[None]:
        try:
            yield from pending.change.look_through(pending.call)
            pending.is_looked_through = True
            # Not `yield from`: if these steps are closed, `close` still records the remaining rows.
            for _ in pending.telling:
                yield
        finally:
            if pending.call in self._pending:
                self._done(pending)
                _run(pending.telling)

    def _done(self, pending: _Pending) -> None:
        del self._pending[pending.call]
        self._waiting_bytes -= pending.bytes

    def _telling(self, call: Call, client: AuditedClient, change: NotedChange, owed: int) -> Iterator[None]:
        writer = self._writer
        writer.owed -= 1
        block = writer.ready()
        error = UNKNOWN_ERROR if change.error_code is None else change.error_code
        if block is not None and block.add_request(call, client, error):
            writer.seal()
        owed -= 1
        for number, told in enumerate(change.told(), 1):
            if owed:
                owed -= 1
                writer.owed -= 1
            writer.add("change", call.received_s, *_values(call, client, change, told))
            if number % _ROWS_OF_A_STEP == 0:
                yield
        writer.owed -= owed


def _run(telling: Iterator[None]) -> None:
    for _ in telling:
        pass


def _values(call: Call, client: AuditedClient, change: NotedChange, told: ToldRow) -> tuple[object, ...]:
    """Return the values of a row, from the first one after ts on."""
    row, api = told.row, call.api
    return (
        *(client.facts or ()),
        call.correlation_id,
        api.key,
        api.name,
        *row,
        change.validate_only,
        told.error_code,
        call.ending.value,
        told.further,
    )
