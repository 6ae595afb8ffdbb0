"""An audit log on a manual clock, and invented requests for it."""

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from broker_runtime.apis.request.call import Call, Completion, Ending, PartitionFacts
from broker_runtime.apis.table import COUNTED_APIS
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.connection.connection_notices import ConnectionNotice, NoticeKind
from broker_runtime.node.metadata_before import MetadataNow
from broker_runtime.observers.audit_log.changes.group_ids import GROUP_APIS
from broker_runtime.observers.audit_log.log import UNREAD_ANSWERS, AuditDependencies, AuditLog
from broker_runtime.observers.audit_log.settings import read_settings
from broker_runtime.observers.audit_log.spool import SpoolIdentity
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.messages import Fields, decode_request, encode_request_body, encode_response
from broker_runtime.wire.versions import FORMATS
from tests.support.fakes.manual_clock import ManualClock
from tests.support.requests.calls import NotedConnection

API_NAMES = {api.key: api.name for api in COUNTED_APIS}


class NamedApi(NamedTuple):
    """The parts of an ApiSpec that a Call needs."""

    key: int
    name: str
    flexible_from: int = 9
    versions: tuple[int, int] = (0, 9)
    outlives_client: bool = False


class _Timer:
    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualTimers:
    """The event loop's timers on a ManualClock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._timers: list[_Timer] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(self.clock.monotonic() + delay_s, callback)
        self._timers.append(timer)
        return timer

    def forget(self) -> None:
        self._timers.clear()

    def advance(self, seconds: float) -> None:
        """Advance the clock and run the timers that fall due, in order, each at its time."""
        until = self.clock.monotonic() + seconds
        while due := [timer for timer in self._timers if timer.at_s <= until + 1e-9 and not timer.is_cancelled]:
            timer = min(due, key=lambda timer: timer.at_s)
            self._timers.remove(timer)
            self.clock.advance(max(0.0, timer.at_s - self.clock.monotonic()))
            timer.callback()
        self.clock.advance(max(0.0, until - self.clock.monotonic()))


class AuditBench:
    """One boot of a broker that does nothing but write its audit log into `folder`."""

    def __init__(
        self,
        fs: FileSystem,
        folder: Path,
        boot_id: str = "0001",
        broker: tuple[str, int] = ("cluster", 7),
        /,
        **config: str,
    ) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        given = {name.replace("_", "."): value for name, value in config.items()}
        identity = SpoolIdentity(*broker, boot_id)
        self.image = MetadataImage()
        environment = AuditDependencies(
            identity, folder, API_NAMES, fs, self.clock, self.timers.call_later, MetadataNow(self.image)
        )
        self.log = AuditLog(read_settings(given), environment)
        self.connection = NotedConnection()

    def request(
        self,
        api: int = 3,
        partitions: Sequence[PartitionFacts] = (),
        *,
        ending: Ending = Ending.ANSWERED,
        connection: NotedConnection | None = None,
        client_id: str | None = "test",
        **attributes: object,
    ) -> Call:
        """Record a request that took a millisecond and has ended; return its call."""
        call = ended_call(api, connection or self.connection, self.clock.monotonic(), partitions, ending, client_id)
        for name, value in attributes.items():
            setattr(call, name, value)
        if not partitions and api in GROUP_APIS | UNREAD_ANSWERS:
            # As `AuditLog.note` does.
            call.partitions = None
        self.log.record_call(call)
        return call

    def produce(self, topic: str = "orders", partition: int = 0, records: int = 10) -> Call:
        return self.request(0, [(topic, partition, 1000, records, 40, 39 + records, 1, 2, 0)], acks=1)

    def change(
        self,
        key: int,
        version: int,
        request: Fields,
        answer: Fields | None = None,
        *,
        ending: Ending = Ending.ANSWERED,
        is_framed: bool = False,
    ) -> Call:
        """Record a request that changes something; without `answer` it has none. Return its call.

        `is_framed`: the handler of its API reads it itself.
        """
        api = NamedApi(key, API_NAMES[key], FORMATS[key].flexible_from, (0, version))
        call = Call(api, version, 5, "admin", self.connection, Completion(self.clock.monotonic))
        body = memoryview(encode_request_body(key, version, request))
        call.request = RequestReader(body, 0, call.flexible) if is_framed else decode_request(key, version, body)
        call.request_bytes, call.received_s = len(body), self.clock.monotonic()
        call.keep_details()
        self.log.note(call, body, 0)
        call.completed_s, call.ending = self.clock.monotonic(), ending
        call.reply = () if answer is None else (encode_response(key, version, 5, answer),)
        self.log.record_call(call)
        return call

    def connect(self, kind: NoticeKind = NoticeKind.ACCEPTED, connection_id: int = 1) -> None:
        self.log.record_connection(ConnectionNotice(kind, "PLAINTEXT", "127.0.0.1", 50_000, connection_id))

    def kill(self) -> None:
        """Stop as kill -9 does: no more writes, and the lock is free."""
        self.timers.forget()
        del self.log
        gc.collect()

    def settle(self) -> None:
        """Advance the timers until everything so far is in the spool."""
        self.timers.advance(0.2)


def ended_call(
    api: int,
    connection: NotedConnection,
    now_s: float,
    partitions: Sequence[PartitionFacts],
    ending: Ending,
    client_id: str | None,
) -> Call:
    call = Call(NamedApi(api, API_NAMES[api]), 9, 5, client_id, connection, Completion(lambda: now_s))
    call.keep_details()
    call.request_bytes = 100
    call.received_s, call.completed_s, call.ending = now_s - 0.001, now_s, ending
    call.partitions = list(partitions)
    call.reply = (b"x" * 50,)
    return call
