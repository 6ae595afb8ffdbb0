"""The audit log of a broker: selects what is recorded, and how.

All of it runs on the event loop. An event costs its rows, which are appended to a block in memory. The block is written
to the page cache when it is full or a tenth of a second old.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from broker_runtime.apis.request.call import Call, Ending, PartitionFacts
from broker_runtime.clock import Clock, Timer
from broker_runtime.network.connection.connection_notices import ConnectionNotice
from broker_runtime.observers.audit_log.admin_apis import ADMIN_APIS
from broker_runtime.observers.audit_log.change_log import ChangeLog
from broker_runtime.observers.audit_log.changes.asked import API_KEYS as CHANGED_BY
from broker_runtime.observers.audit_log.changes.group_ids import GROUP_APIS, group_id_of
from broker_runtime.observers.audit_log.clients import AuditedClient, ClientFacts, Clients
from broker_runtime.observers.audit_log.layout import UNKNOWN_ERROR
from broker_runtime.observers.audit_log.limits_log import shown_row
from broker_runtime.observers.audit_log.rollup import Rollup
from broker_runtime.observers.audit_log.settings import AuditSettings, Level
from broker_runtime.observers.audit_log.spool import Spool, SpoolIdentity
from broker_runtime.observers.audit_log.writer import EventWriter
from broker_runtime.observers.surroundings import HostedPartition, MetadataBefore
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.wire.versions import DESCRIBE_QUORUM, LIST_PARTITION_REASSIGNMENTS
from connection_limits.recorded.rows import LimitChange, LimitRow
from connection_limits.settings import LimitReference

UNREAD_ANSWERS: Final = frozenset({DESCRIBE_QUORUM, LIST_PARTITION_REASSIGNMENTS})
"""The APIs whose answers come from the controller and are not read for errors, because they change nothing."""
_FORWARDED: Final = CHANGED_BY | UNREAD_ANSWERS
"""APIs whose answers may come from the controller: without notes, their error codes are not known."""
_ROLLUP_ROWS_MAX: Final = 1000
"""An interval with more rows ends early, so that its block and the memory for it stay small."""

_NOT_HELD: Final = (None, None, None, None)


class AuditMetrics(NamedTuple):
    """Numbers of the audit log since the start.

    `events` counts those that have a number, `dropped` those that were dropped. `queued_bytes` wait to be written, and
    `waiting_spools` wait to be landed.
    """

    events: int
    dropped: int
    queued_bytes: int
    waiting_spools: int


class AuditDependencies(NamedTuple):
    """The parts of the broker that its audit log uses. `call_later` is the event loop's, in seconds."""

    identity: SpoolIdentity
    folder: Path
    api_names: dict[int, str]
    fs: FileSystem
    clock: Clock
    call_later: Callable[[float, Callable[[], None]], Timer]
    metadata: MetadataBefore


class AuditLog:
    """Records calls, connections and partitions. `close` is the last call.

    The constructor raises OSError if the folder cannot be written; the methods raise nothing. Calls should come with
    their details (`Call.keep_details`).
    """

    def __init__(self, settings: AuditSettings, given: AuditDependencies) -> None:
        spool = Spool(given.fs, given.folder, given.identity, given.api_names, settings.spool_bytes)
        self._spool = spool
        self._writer = EventWriter(spool, given.clock, given.call_later, settings.writer)
        self._clients = Clients(settings.clients)
        self._known = self._clients.by_id
        self._changes = ChangeLog(self._writer, settings.changes, given.metadata, settings.clients.shown)
        self._settings = settings
        self._clock = given.clock
        self._call_later = given.call_later
        self._is_off = settings.level is Level.OFF
        self._only_admin = settings.level in (Level.CONNECTIONS, Level.OFF)
        self._rollup = Rollup(_ROLLUP_ROWS_MAX) if settings.level is Level.ROLLUP else None
        self._rollup_timer: Timer | None = None
        excluded = settings.excluded_topics
        self._topic_names = frozenset(name for name in excluded if not name.endswith("*"))
        self._topic_prefixes = tuple(name[:-1] for name in excluded if name.endswith("*"))
        self._is_partial = bool(excluded) or settings.level is not Level.FULL

    def refuses(self, call: Call) -> bool:
        """Return whether to refuse a request because its outcome must be recorded and cannot be."""
        settings = self._settings
        if not settings.rejects or not self._writer.is_full:
            return False
        if settings.clients.leave_out(call.listener, call.connection.principal):
            return False
        return not self._only_admin or call.api.key in ADMIN_APIS

    @property
    def noted_apis(self) -> frozenset[int]:
        """Return the APIs of the requests that `note` is called with."""
        if self._is_off:
            return frozenset()
        is_full = self._settings.level is Level.FULL
        return CHANGED_BY | GROUP_APIS | UNREAD_ANSWERS if is_full else CHANGED_BY

    def note(self, call: Call, frame: memoryview, body_at: int) -> None:
        """Note the changes in a request, or its group, before the request is handled. Raises ProtocolError."""
        # Calls without partitions take another path in `record_call`, so that Produce and Fetch are not slowed down.
        call.partitions = None
        key = call.api.key
        if key in GROUP_APIS:
            call.group_id = group_id_of(key, call.version, call.flexible, frame, body_at)
        elif key not in UNREAD_ANSWERS:
            self._changes.note(call)

    @property
    def figures(self) -> AuditMetrics:
        writer = self._writer
        return AuditMetrics(writer.last_seq + writer.owed, writer.dropped, writer.queued_bytes, self._spool.waiting)

    def record_call(self, call: Call) -> None:
        """Record a request that has ended, with its details and notes."""
        connection = call.connection
        client = self._known.get(connection.id)
        if (
            client is None
            or client.client_id != call.client_id
            or client.software is not connection.state
            or client.principal is not connection.principal
        ):
            client = self._clients.of(connection, call.client_id)
        client.requests += 1
        if (self._is_partial or client.facts is None or call.partitions is None) and not self._is_wanted(call, client):
            return
        writer = self._writer
        block = writer.block
        if block is None or block.last_seq + writer.owed >= writer.reserved:
            block = writer.ready()
            if block is None:
                return
        if block.add_request(call, client):
            writer.seal()

    def record_connection(self, notice: ConnectionNotice) -> None:
        """Record that a connection was accepted, delayed, rejected or closed."""
        kind, listener, ip, port, connection_id, limit, delay_s, reason, open_s, held_by, rate, *times_s = notice
        client = self._clients.known(connection_id)
        facts = self._clients.stranger(listener, ip, port, connection_id) if client is None else client.facts
        if facts is None or self._is_off:
            return
        delay_us = None if delay_s is None else round(delay_s * 1e6)
        open_us = requests = None
        if open_s is not None:
            open_us, requests = round(open_s * 1e6), client.requests if client else 0
        at_s, why = self._clock.monotonic(), limit or reason
        held = _NOT_HELD if held_by is None else _columns_of(held_by, ip, facts.client_ip)
        times_us = [None if time_s is None else _whole_us(time_s) for time_s in times_s]
        self._writer.add(
            "connection", at_s, *facts, kind.value, why, delay_us, open_us, requests, *held, rate, *times_us
        )

    def record_limits(self, change: LimitChange) -> None:
        """Record limits that came into force together."""
        if not self._is_off:
            self.record_limit_rows(change.at_s, change.rows, len(change.rows))

    def record_limit_rows(self, at_s: float, rows: Iterable[LimitRow], left: int) -> None:
        """Record rows of a change at this time; `left` is the number of its rows that are not recorded yet."""
        if self._is_off:
            return
        now_s, at_us = self._clock.monotonic(), _whole_us(at_s)
        for further, row in enumerate(rows, 1):
            shown = shown_row(row, self._settings.clients.shown)
            self._writer.add("connection_limit", now_s, at_us, *shown, left - further)

    def inventory(
        self, partition: HostedPartition, registered_brokers: str | None = None, *, is_deleted: bool = False
    ) -> None:
        """Record a partition that this broker has, or had, and the brokers of the cluster, such as 1,2,3."""
        if not self._is_off and not self._is_excluded(partition.topic):
            self._writer.add("inventory", self._clock.monotonic(), *partition, registered_brokers, is_deleted)

    def close(self) -> None:
        if self._rollup_timer is not None:
            self._rollup_timer.cancel()
        self._end_interval()
        self._changes.close()
        self._writer.close()

    def _is_wanted(self, call: Call, client: AuditedClient) -> bool:
        """Whether to record the call by itself. May instead add it to the rollup, and remove excluded topics."""
        if self._is_off or client.facts is None:
            return False
        if hasattr(call, "notes"):
            self._changes.record(call, client)
            return False
        if hasattr(call, "group_id"):
            self._add(call, client if call.group_id is None else client.in_group(call.group_id))
            return False
        if call.fields is None and call.api.key in _FORWARDED and call.ending is Ending.ANSWERED:
            self._add(call, client, call.error or UNKNOWN_ERROR)
            return False
        if call.partitions is None:
            # The request was refused before it could begin.
            call.keep_details()
        has_excluded = self._topic_names or self._topic_prefixes
        if has_excluded and call.partitions and not self._leave_out_topics(call):
            return False
        if (self._only_admin or self._rollup is not None) and call.api.key not in ADMIN_APIS:
            self._roll_up(call, client.facts)
            return False
        return True

    def _add(self, call: Call, client: AuditedClient, error: int | None = None) -> None:
        block = self._writer.ready()
        if block is not None and block.add_request(call, client, error):
            self._writer.seal()

    def _leave_out_topics(self, call: Call) -> bool:
        """Remove excluded topics from the call; return whether any partition is left."""
        given: list[PartitionFacts] = call.partitions or []
        kept = [facts for facts in given if not self._is_excluded(facts[0])]
        if len(kept) < len(given):
            call.partitions = kept
        return bool(kept)

    def _is_excluded(self, topic: str) -> bool:
        return topic in self._topic_names or topic.startswith(self._topic_prefixes)

    def _roll_up(self, call: Call, client: ClientFacts) -> None:
        rollup = self._rollup
        if rollup is None:
            return
        if not rollup.requests:
            rollup.began_us = self._clock.wall_ms() * 1000
            self._rollup_timer = self._call_later(self._settings.rollup_s, self._end_interval)
        self._writer.owe()
        rollup.add(call, client)
        if rollup.is_full:
            self._end_interval()

    def _end_interval(self) -> None:
        rollup, writer = self._rollup, self._writer
        if rollup is None or not rollup.requests:
            return
        if self._rollup_timer is not None:
            self._rollup_timer.cancel()
        count = rollup.requests
        rows = list(rollup.taken(self._clock.wall_ms() * 1000))
        writer.owed -= count
        block = writer.ready(count)
        if block is None:
            return
        first, last = block.last_seq + 1, block.last_seq + count
        is_full = [block.add("rollup", last, first, *row) for row in rows]
        if is_full[-1]:
            writer.seal()


def _whole_us(time_s: float) -> int:
    """Return microseconds within the millisecond that the limiter received: a product of floats may round up."""
    ms = int(time_s * 1000)
    return ms * 1000 + min(max(int(time_s * 1e6) - ms * 1000, 0), 999)


def _columns_of(limit: LimitReference, ip: str, shown_ip: str) -> tuple[str | None, str, str | None, int]:
    """Return the columns of a limit. `shown_ip` is the address of the client as the log may show it."""
    entity = f"ip={shown_ip}" if limit.entity == f"ip={ip}" else limit.entity
    return limit.quota, limit.key, entity, limit.value
