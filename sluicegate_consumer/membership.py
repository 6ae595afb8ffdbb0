"""The consumer in its group: finds the coordinator, registers, answers its calls, suspects it if silent, and leaves.

It reads exactly what the coordinator assigns.

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

`session` has the state of one registration. `assignment` has the assigned partitions, `fetching` reads them, and
`streams` delivers their records. `listener_calls` notifies the application. Tests:
tests/unit/sluicegate_consumer/test_membership.py, test_session.py, and
tests/integration/push/test_sluicegate_consumer.py.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafka_bytes.push.messages import PingRequest as Ping
from kafka_bytes.push.messages import StopFetcherRequest as StopFetcher
from sluicegate_consumer.assignment import Assignment
from sluicegate_consumer.backoff import Backoff
from sluicegate_consumer.brokers import Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.connection import FrameConnection
from sluicegate_consumer.errors import (
    Code,
    CommitRefusedError,
    ProtocolError,
    RegistrationRefusedError,
    code_name,
)
from sluicegate_consumer.listener import Listener
from sluicegate_consumer.listener_calls import ListenerCalls
from sluicegate_consumer.session import IdTakenError, NotThereYet, Session, TryAgain, check_code
from sluicegate_consumer.streams import Flow, StreamQueue
from sluicegate_consumer.wire.kafka import offset_commit_request, read_offset_commit
from sluicegate_consumer.wire.push import Registration, StartFetcher, cluster_metadata_request, read_cluster_metadata

log = logging.getLogger(__name__)

_ID_TAKEN_SESSIONS = 3
"""Sessions for which the ID may be taken by the consumer's own last connection, until the coordinator gives that up."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The destination of records that a consumer has read."""

    queues: Sequence[StreamQueue]
    flow: Flow
    listener: Listener


class Membership:
    """The membership of one consumer in its group. Run `run` as a task; `leave` ends it."""

    def __init__(self, registration: Registration, brokers: Brokers, delivery: Delivery, settings: Settings) -> None:
        self._registration = registration
        self._brokers = brokers
        self._delivery = delivery
        self._settings = settings
        self._session: Session | None = None
        self._connection: FrameConnection | None = None
        self._calls = ListenerCalls(delivery.listener, settings.callback_timeout_s, self._listener_failed)
        self.assignment = Assignment(delivery.queues, delivery.flow, brokers, settings)
        self._commits: set[asyncio.Future[None]] = set()
        """Commits in progress."""
        self._coordinator_id = -1
        self._heard_s = 0.0
        """Time of the coordinator's last call, or of the last warning that it is silent."""
        self._leaving = False

    async def run(self) -> None:
        """Take part in the group until the consumer has left. Raises ConsumerError if the consumer cannot continue."""
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
                self._log_not_found(error, now())
            except (OSError, ProtocolError, TryAgain) as error:
                taken_since_s = None
                # Attempts that cost brokers little. A broker that closes the connection or does not answer may be
                # overloaded.
                soon = isinstance(error, NotThereYet | ConnectionRefusedError)
                if self._calls.failure is None:
                    self._log_not_found(error, now())
            if self._calls.failure is not None:
                raise self._calls.failure
            if not self._leaving:
                await asyncio.sleep(backoff.next_s(soon=soon))

    def _log_not_found(self, error: Exception, now_s: float) -> None:
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
        self._brokers.learn(found.brokers_info)
        check_code(found.error_code)
        broker = self._brokers.get(found.coordinator_id)
        if broker is None:
            raise NotThereYet(f"the coordinator, broker {found.coordinator_id}, is not in the cluster's metadata")
        self._coordinator_id = broker.id
        return broker.host, broker.port

    async def commit(self) -> None:
        """Commit the read offsets like members of other protocols, through the coordinator of the registration.

        Raises CommitRefusedError, also without a coordinator.
        """
        offsets = [(each.topic, each.partition, each.offset) for each in self.assignment.positions if each.offset >= 0]
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
        connection.send(session.answer_ping(lambda: self.assignment.positions))
        out_of_range = self.assignment.note_out_of_range()
        if out_of_range:
            raise TryAgain(f"the offsets of {out_of_range} partitions are out of range")

    def _stopped(self, session: Session, connection: FrameConnection) -> None:
        """Discard undelivered records at once; the answer waits for the application."""
        self.assignment.stop_fetching()

        async def tell_and_answer() -> None:
            await self._calls.revoked()
            if self._commits:
                # A commit that arrives after other consumers have read on would reset their offsets.
                await asyncio.wait(self._commits, timeout=self._settings.callback_timeout_s)
            answer = session.answer_stop(lambda: self.assignment.positions)
            self.assignment.revoke()
            connection.send(answer)

        self._calls.next(tell_and_answer)

    def _started(self, call: StartFetcher, session: Session, connection: FrameConnection) -> None:
        """Fetch at once, and deliver once the application has been notified."""
        self.assignment.stop_fetching()
        self._brokers.learn(call.brokers)
        self.assignment.replace(call.streams)
        connection.send(session.answer_start())
        if self._leaving:
            return
        flow = self._delivery.flow
        flow.held = True
        self.assignment.fetch()
        self._calls.next(self._tell_assigned)

    async def _tell_assigned(self) -> None:
        await self._calls.assigned(self.assignment.partitions)
        self._delivery.flow.held = False
        self._delivery.flow.wake()

    def _listener_failed(self) -> None:
        """End the registration, so that `run` raises the listener's error."""
        if self._connection is not None:
            self._connection.close()

    async def _lost(self) -> None:
        """Handle the end of the connection: nothing is read until the consumer has registered again."""
        self.assignment.stop_fetching()
        await self._calls.cancel()
        self.assignment.revoke()
        await self._calls.lost()

    async def leave(self) -> bool:
        """Deliver no more records to the application.

        Return whether `run` has to continue until the last offsets have arrived.
        """
        self.assignment.stop_fetching()
        self._leaving = True
        await asyncio.wait([self._calls.next(self._calls.revoked)])
        # Whether later acknowledgements would be reported is uncertain, so they do not count.
        self.assignment.stop_acknowledging()
        has_offsets = bool(self.assignment.partitions) and self._registration.auto_commit
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
