"""The consumer in its group: finds the coordinator, registers, answers its calls, suspects it if silent, and leaves.

It reads exactly what the coordinator assigns. This module owns the assignment.

The protocol is the reverse of Kafka's groups: the coordinator calls the consumer (docs/reference/push-protocol.md).

- `Membership.run` repeats a registration until the consumer leaves: find the coordinator, register, answer its calls.
- StartFetcher replaces the assignment. Fetching starts at once; delivery starts when `Listener.assigned` has returned.
- StopFetcher stops fetching and discards undelivered records. The answer waits for `Listener.revoked`, and for commits
  in progress.
- With `auto_commit`, the answers to StopFetcher and Ping have the acknowledged offsets, which the coordinator commits.
- A coordinator that is silent for a session is suspected: no record is delivered beyond that time (`Flow.lease_until`),
  because other consumers may have the partitions.

Invariants: delivery is at least once. After the answer to a StopFetcher nothing is delivered or acknowledged. Calls of
the listener run one after the other.

`session` has the state of one registration, `fetching` reads the partitions, and `streams` delivers their records.
Tests: tests/unit/sluicegate_consumer/test_membership.py, test_session.py, and
tests/integration/push/test_sluicegate_consumer.py.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sluicegate_consumer.backoff import Backoff
from sluicegate_consumer.brokers import Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connection import FrameConnection
from sluicegate_consumer.errors import (
    CallbackFailedError,
    Code,
    CommitRefusedError,
    ProtocolError,
    RegistrationRefusedError,
    code_name,
)
from sluicegate_consumer.fetching import Fetching
from sluicegate_consumer.listener import Listener
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.record import TopicPartition
from sluicegate_consumer.session import IdTakenError, NotThereYet, Session, TryAgain, check_code
from sluicegate_consumer.streams import Flow, StreamQueue
from sluicegate_consumer.wire.kafka import offset_commit_request, read_offset_commit
from sluicegate_consumer.wire.push import (
    PartitionOffset,
    Ping,
    Registration,
    StartFetcher,
    StopFetcher,
    cluster_metadata_request,
    read_cluster_metadata,
)

log = logging.getLogger(__name__)

_ID_TAKEN_SESSIONS = 3
"""Sessions for which the ID may be taken by the consumer's own last connection, until the coordinator gives that up."""
_PLACES = {"earliest": -2, "latest": -1}


Tell = Callable[[frozenset[TopicPartition]], Awaitable[None]]
"""A method of the listener."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where the records that are read go."""

    queues: Sequence[StreamQueue]
    flow: Flow
    listener: Listener


class Membership:
    """The membership of one consumer. Run `run` as a task; `leave` ends it."""

    def __init__(self, registration: Registration, brokers: Brokers, delivery: Delivery, settings: Settings) -> None:
        self._registration = registration
        self._brokers = brokers
        self._delivery = delivery
        self._settings = settings
        self._session: Session | None = None
        self._connection: FrameConnection | None = None
        self._readers: dict[TopicPartition, PartitionReader] = {}
        self._fetching: Fetching | None = None
        self._reset_from: dict[TopicPartition, int] = {}
        """Offsets that were out of range: a partition assigned at such an offset begins as `auto_offset_reset` says."""
        self._telling: asyncio.Task[None] | None = None
        """The last of the listener calls, which run one after the other."""
        self._told: frozenset[TopicPartition] = frozenset()
        """The partitions that the listener was notified of."""
        self._failure: BaseException | None = None
        """The error of a listener call."""
        self._commits: set[asyncio.Future[None]] = set()
        """Commits in progress."""
        self._coordinator_id = -1
        self._heard_s = 0.0
        """Time of the coordinator's last call, or of the last warning that it is silent."""
        self._leaving = False

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._readers)

    @property
    def positions(self) -> Sequence[PartitionOffset]:
        """Positions of all assigned partitions."""
        return [PartitionOffset(*tp, reader.told) for tp, reader in self._readers.items()]

    async def run(self) -> None:
        """Run until the consumer has left. Raises ConsumerError if it cannot continue."""
        backoff = Backoff(self._settings.backoff_min_s, self._settings.backoff_max_s, random.random)
        now = asyncio.get_running_loop().time
        self._heard_s = now()
        taken_since_s: float | None = None
        while not self._leaving:
            soon = False
            try:
                await self._register_and_answer(pinged=backoff.reset)
            except IdTakenError as error:
                taken_since_s = taken_since_s or now()
                if now() - taken_since_s > _ID_TAKEN_SESSIONS * self._settings.session_timeout_s:
                    name = self._registration.consumer_id
                    code = Code.UNRELEASED_INSTANCE_ID
                    raise RegistrationRefusedError(
                        code, f"another consumer of the group has the id {name!r}"
                    ) from error
                self._look_on(error, now())
            except (OSError, ProtocolError, TryAgain) as error:
                taken_since_s = None
                # Attempts that cost brokers little. A broker that closes the connection or does not answer may be
                # overloaded.
                soon = isinstance(error, NotThereYet | ConnectionRefusedError)
                if self._failure is None:
                    self._look_on(error, now())
            if self._failure is not None:
                raise self._failure
            if not self._leaving:
                await asyncio.sleep(backoff.next_s(soon=soon))

    def _look_on(self, error: Exception, now_s: float) -> None:
        """Log that the coordinator is not found: as a warning once per session, not with each attempt."""
        is_long = now_s - self._heard_s >= self._settings.session_timeout_s
        if is_long:
            self._heard_s = now_s
        name = self._registration.consumer_id
        log.log(
            logging.WARNING if is_long else logging.INFO, "consumer %s searches for its coordinator: %s", name, error
        )

    async def _register_and_answer(self, *, pinged: Callable[[], None]) -> None:
        """Run one registration, from the search for the coordinator to the end of its connection.

        `pinged` is called with each ping: the registration has then lasted for a while.
        """
        address = await self._coordinator()
        connection = await self._brokers.open(address)
        now = asyncio.get_running_loop().time
        session = Session(self._registration, now())
        self._session, self._connection = session, connection
        try:
            connection.send(self._registration.request())
            while not session.may_end:
                try:
                    async with asyncio.timeout_at(session.suspected_s):
                        frame = await connection.receive()
                except TimeoutError:
                    raise session.silence() from None
                call = session.receive(frame, now())
                self._heard_s = now()
                self._delivery.flow.lease_until(session.suspected_s)
                if isinstance(call, Ping):
                    pinged()
                    self._pinged(session, connection)
                elif isinstance(call, StopFetcher):
                    self._stopped(session, connection)
                elif isinstance(call, StartFetcher):
                    self._started(call, session, connection)
        finally:
            self._session = self._connection = None
            connection.close()
            await self._lost()

    async def _coordinator(self) -> tuple[str, int]:
        """Return the coordinator's address. Asks one broker, a different one each time."""
        connection = await self._brokers.open(self._brokers.next_address())
        wait_s = self._settings.request_timeout_s
        try:
            connection.send(cluster_metadata_request(self._registration.group_id))
            async with asyncio.timeout(wait_s):
                found = read_cluster_metadata(await connection.receive())
        except TimeoutError:
            raise TryAgain(f"{connection.peer} did not return the coordinator of the group within {wait_s} s") from None
        finally:
            connection.close()
        self._brokers.learn(found.brokers)
        check_code(found.error_code)
        broker = self._brokers.get(found.coordinator_id)
        if broker is None:
            raise NotThereYet(f"the coordinator, broker {found.coordinator_id}, is not in the cluster's metadata")
        self._coordinator_id = broker.id
        return broker.host, broker.port

    async def commit(self) -> None:
        """Commit like members of other protocols, but through the coordinator with which the consumer is registered."""
        offsets = [(each.topic, each.partition, each.offset) for each in self.positions if each.offset >= 0]
        if not offsets:
            return
        registration, link = self._registration, self._brokers.link(self._coordinator_id)
        if link is None or self._session is None:
            raise CommitRefusedError(
                "the consumer has no coordinator at the moment, so its offsets cannot be committed"
            )
        request = offset_commit_request(registration.group_id, registration.consumer_id, offsets)
        on_its_way = asyncio.get_running_loop().create_future()
        self._commits.add(on_its_way)
        try:
            codes = read_offset_commit(await link.ask(request))
        except (OSError, ProtocolError) as error:
            raise CommitRefusedError(f"the coordinator rejected the offsets: {error}") from error
        finally:
            self._commits.remove(on_its_way)
            on_its_way.set_result(None)
        refused = {tp: code_name(code) for tp, code in codes.items() if code}
        if refused:
            raise CommitRefusedError(f"the coordinator rejected the offsets of {refused}")

    def _pinged(self, session: Session, connection: FrameConnection) -> None:
        """Answer a ping. If an offset is out of range, end the registration.

        The answer then reports the other positions a last time, so that their records are not read again.
        """
        connection.send(session.answer_ping(lambda: self.positions))
        out_of_range = [reader for reader in self._readers.values() if reader.out_of_range]
        if out_of_range:
            self._reset_from.update((reader.tp, reader.fetch_offset) for reader in out_of_range)
            raise TryAgain(f"the offsets of {len(out_of_range)} partitions are out of range")

    def _stopped(self, session: Session, connection: FrameConnection) -> None:
        """Discard undelivered records at once; the answer waits for the application."""
        self._stop_fetching()

        async def tell_and_answer() -> None:
            await self._tell_revoked()
            if self._commits:
                # A commit that arrives after other consumers have read on would reset their offsets.
                await asyncio.wait(self._commits, timeout=self._settings.callback_timeout_s)
            answer = session.answer_stop(lambda: self.positions)
            self._revoke()
            connection.send(answer)

        self._next_to_tell(tell_and_answer)

    def _started(self, call: StartFetcher, session: Session, connection: FrameConnection) -> None:
        """Fetch at once, and deliver once the application has been notified."""
        self._stop_fetching()
        self._revoke()
        self._brokers.learn(call.brokers)
        for number, parts in call.streams:
            if number >= len(self._delivery.queues):
                raise ProtocolError(
                    f"stream {number} was assigned, but the consumer has {len(self._delivery.queues)} streams"
                )
            for part in parts:
                self._add_reader(part, number)
        connection.send(session.answer_start())
        if self._leaving:
            return
        flow = self._delivery.flow
        flow.held = True
        readers = list(self._readers.values())
        self._fetching = Fetching(readers, self._brokers, self._settings, self._deliver, flow.fail)
        self._fetching.start()
        self._next_to_tell(self._tell_assigned)

    async def _tell_assigned(self) -> None:
        self._told = self.assignment
        await self._tell(self._delivery.listener.assigned, self._told)
        self._delivery.flow.held = False
        self._delivery.flow.wake()

    async def _tell_revoked(self) -> None:
        """Call `revoked` once for each assignment."""
        told, self._told = self._told, frozenset()
        if told:
            await self._tell(self._delivery.listener.revoked, told)

    def _add_reader(self, part: PartitionOffset, stream: int) -> None:
        tp = TopicPartition(part.topic, part.partition)
        if self._reset_from.get(tp) == part.offset:
            # Reset again if necessary: the offset found before may not have been reported before the partition was
            # revoked.
            part = part._replace(offset=_PLACES[self._settings.auto_offset_reset])
        else:
            self._reset_from.pop(tp, None)
        self._readers[tp] = PartitionReader(part, stream, self._settings.unpacked_bytes_max, self._has_room)

    def _deliver(self, reader: PartitionReader) -> None:
        self._delivery.queues[reader.stream].put(reader)
        self._delivery.flow.wake()

    def _has_room(self) -> None:
        if self._fetching is not None:
            self._fetching.wake()

    def _stop_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.stop()
            self._fetching = None

    def _revoke(self) -> None:
        for reader in self._readers.values():
            reader.revoke()
        self._readers.clear()

    def _next_to_tell(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        before = self._telling

        async def in_turn() -> None:
            if before is not None:
                try:
                    await asyncio.wait([before])
                except asyncio.CancelledError:
                    before.cancel()
                    await asyncio.wait([before])
                    raise
            await work()

        self._telling = asyncio.create_task(in_turn())
        self._telling.add_done_callback(self._has_told)
        return self._telling

    def _has_told(self, telling: asyncio.Task[None]) -> None:
        if not telling.cancelled() and telling.exception() is not None:
            self._failure = telling.exception()
            if self._connection is not None:
                self._connection.close()

    async def _tell(self, method: Tell, partitions: frozenset[TopicPartition]) -> None:
        limit_s = self._settings.callback_timeout_s
        deadline = asyncio.timeout(limit_s)
        try:
            async with deadline:
                await method(partitions)
        except Exception as error:
            if not deadline.expired():
                raise CallbackFailedError(f"the listener of the consumer has failed: {error!r}") from error
            log.warning(
                "the listener took more than callback_timeout_s=%s s; the consumer continues without waiting for it",
                limit_s,
            )

    async def _lost(self) -> None:
        """Handle the end of the connection: nothing is read until the consumer has registered again."""
        self._stop_fetching()
        telling, self._telling = self._telling, None
        if telling is not None:
            telling.cancel()
            await asyncio.wait([telling])
        self._revoke()
        told, self._told = self._told, frozenset()
        if told and self._failure is None:
            await self._tell(self._delivery.listener.lost, told)

    async def leave(self) -> bool:
        """Deliver nothing any more; return whether `run` has to continue until the last offsets have arrived."""
        self._stop_fetching()
        self._leaving = True
        await asyncio.wait([self._next_to_tell(self._tell_revoked)])
        for reader in self._readers.values():
            # Whether later acknowledgements would be reported is uncertain, so they do not count.
            reader.revoke()
        has_offsets = bool(self._readers) and self._registration.auto_commit
        if has_offsets and self._settings.close_by == "commit":
            try:
                await self.commit()
                has_offsets = False
            except CommitRefusedError as error:
                log.info(
                    "consumer %s sends its last offsets in responses to pings: %s",
                    self._registration.consumer_id,
                    error,
                )
        session = self._session
        if session is None:
            return False
        session.close(has_offsets=has_offsets)
        return not session.may_end
