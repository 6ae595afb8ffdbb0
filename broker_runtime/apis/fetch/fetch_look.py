"""One fetch: reads its partitions, and packs the answer from the results. Pure.

`Fetch` is the fast path, which keeps no state: most fetches of consumers find records at the first read. A fetch that
waits, or belongs to a session, is a `SessionFetch`.
"""

from collections.abc import Collection, Iterable
from uuid import UUID

from broker_runtime.apis.fetch.current_leaders import OF_FETCH, CurrentLeaders, reports_leader
from broker_runtime.apis.fetch.fetch_answer import (
    pack_all,
    pack_all_in_steps,
    pack_answer,
    pack_in_steps,
    pack_partition,
)
from broker_runtime.apis.fetch.fetch_request import FetchRequest
from broker_runtime.apis.fetch.list_offsets import check_epoch
from broker_runtime.apis.fetch_sessions.fetch_partition import NOTHING, FetchPartition
from broker_runtime.apis.fetch_sessions.fetch_session import FULL_EPOCH, NO_SESSION, FetchSession
from broker_runtime.apis.fetch_sessions.repeated_fetch import RepeatedFetch
from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import BrokerContext, FetchContext
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.slicing.steps import Steps, at_once, chosen, gathered, let_go
from broker_runtime.storage.log.log import Log
from broker_runtime.wire.reply import FileRegion, Reply
from kafka_bytes.uuids import encode_uuid

AT_ONCE_MAX = 50
"""Maximum number of partitions of a fetch that is read without steps, in about a third of a millisecond."""
_PACKED_AT_ONCE_MAX = 500
"""Maximum number of partitions of a fetch without steps if they are already packed and have not changed."""
_PARTITIONS_OF_A_STEP = 4
_ABORTED_MAX = 100
"""Number of aborted transactions of a partition above which it is the last one with records in an answer."""


class Fetch:
    """A consumer's Fetch request without a session. All its partitions are read and are in its answer."""

    __slots__ = ("_access", "_context", "_quiet", "parts", "request")

    parts: Collection[FetchPartition]
    """The partitions to read."""

    def __init__(self, request: FetchRequest, context: FetchContext) -> None:
        self.request = request
        self._access = request.call.access
        self._context = context
        self._quiet: list[FetchPartition] = []
        asked = request.asked
        if len(asked) > 1:
            # If a partition is named twice, the last mention counts.
            asked = list({each[:2]: each for each in asked}.values())
        self.parts = [FetchPartition(each) for each in asked]

    def read(self) -> tuple[int, bool]:
        """Read the partitions that may have changed. Return the bytes found, and whether to answer at once.

        The first partition with data may exceed every limit, so that a large batch never blocks a consumer (KIP-74).
        """
        _, found, urgent, quiet = self._read_parts(self.parts, self.request.max_bytes, 0)
        if quiet:
            self._has_nothing(quiet)
        return found, urgent

    def _read_parts(
        self, parts: Iterable[FetchPartition], left: int, found: int
    ) -> tuple[int, int, bool, list[FetchPartition]]:
        """Read some partitions, with `left` bytes allowed and `found` bytes already read.

        Returns both numbers afterwards, whether to answer at once, and the partitions without data.
        """
        urgent = False
        quiet: list[FetchPartition] = []
        for part in parts:
            part.region = None
            part.code = 0
            try:
                log, up_to = self._readable(part)
                limit = min(left, part.max_bytes)
                if limit > 0 or not found:
                    if self.request.read_committed:
                        region, is_limited = self._read_committed(part, log, limit, up_to, min_one=not found)
                    else:
                        region, is_limited = log.read(part.offset, limit, min_one=not found, up_to=up_to), False
                    if region is not None:
                        part.region = region
                        found += region.length
                        left = 0 if is_limited else left - region.length
                        urgent = urgent or is_limited
                if self._is_urgent(part, log):
                    urgent = True
                elif part.offset >= up_to:
                    quiet.append(part)
            except KafkaError as error:
                self._refuse(part, error)
                urgent = True
        return left, found, urgent, quiet

    @staticmethod
    def _read_committed(
        part: FetchPartition, log: Log, max_bytes: int, up_to: int, *, min_one: bool
    ) -> tuple[FileRegion | None, bool]:
        """Read committed records, and note the aborted transactions among them.

        Return whether these are so many that the answer gets no more records: the client asks again for the rest.
        """
        limit = log.limited_read(part.offset)
        region = log.read(part.offset, max_bytes, min_one=min_one, up_to=up_to if limit is None else min(up_to, limit))
        if region is None:
            return None, False
        part.aborted = log.aborted_transactions(part.offset, region.next_offset)
        return region, len(part.aborted) > _ABORTED_MAX

    def _refuse(self, part: FetchPartition, error: KafkaError) -> None:
        part.fail(error.code)
        request = self.request
        if request.leaders is None and request.can_be_told_leaders and reports_leader(error.code):
            request.leaders = CurrentLeaders(self._context.image, request.call.listener, OF_FETCH)

    def _readable(self, part: FetchPartition) -> tuple[Log, int]:
        """Return the log, and its end offset for this client. Raises KafkaError."""
        topic = part.topic
        name = topic if isinstance(topic, str) else self._name_of(part)
        if self._access is not None and name != METADATA_TOPIC:
            self._access.require_topic(name)
        log, epoch = self._context.led_log(name, part.index)
        if part.log is not log:
            part.read_from(log)
        if part.leader_epoch >= 0:
            check_epoch(part.leader_epoch, epoch)
        if part.last_epoch >= 0 and name == METADATA_TOPIC:
            _check_history(part, log)
        return log, log.last_stable_offset if self.request.read_committed else log.high_watermark

    def _name_of(self, part: FetchPartition) -> str:
        topic = part.topic
        if isinstance(topic, str):
            return topic
        topics, name = self._context.image.topics, part.name
        if name is None:
            known = topics.by_id(topic)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic} does not exist")
            part.name = name = known.name
        elif (known := topics.get(name)) is not None and known.id != topic:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"topic {name} was deleted and created again, with id {known.id}"
            )
        return name

    def _is_urgent(self, part: FetchPartition, log: Log) -> bool:
        """Whether the log has changed in a way that requires an answer at once, even without records."""
        del part, log
        return False

    def _has_nothing(self, quiet: list[FetchPartition]) -> None:
        self._quiet = quiet

    def answer(self) -> Reply:
        """Return the Fetch reply with the results of the last read."""
        self._note_partitions()
        return pack_answer(self.request, self.parts, NO_SESSION)

    def reply(self) -> Reply:
        """Return `answer`, or an empty reply if the client is over its quota (KIP-13).

        The bytes of records are charged before the answer is packed, because packing changes the session. The other
        bytes of the answer are charged afterwards.
        """
        call = self.request.call
        quotas = call.completion.quotas
        if quotas is None or self.request.replica >= 0:
            return self.answer()
        size = at_once(self._found_bytes())
        if not quotas.fetched(call, size):
            return at_once(self._throttled())
        reply = self.answer()
        quotas.fetched_more(call, _charged_bytes(reply, call) - size)
        return reply

    def _found_bytes(self) -> Steps[int]:
        """Return the bytes of records that the last read has found."""
        size = 0
        for part in list(self.parts):
            if part.region is not None:
                size += part.region.length
            yield
        return size

    def _throttled(self) -> Steps[Reply]:
        """Return an empty reply for a client over its quota. A session remains as it was before the request."""
        yield
        return pack_answer(self.request, (), NO_SESSION)

    def _note_partitions(self) -> None:
        """Add facts about the partitions to the call if it is observed."""
        if self.request.call.partitions is not None:
            at_once(self._noting())

    def _noting(self) -> Steps[None]:
        request = self.request
        facts = request.call.partitions
        if facts is None:
            return
        request.call.replica_id = request.replica
        for part in list(self.parts):
            yield
            region = part.region
            if region is not None or part.code:
                size, records = 0, -1
                if region is not None:
                    size = region.length
                    if region.next_offset >= 0 and part.log is not None and not part.log.may_have_gaps:
                        # The first batch may begin before the offset: the client skips those records.
                        records = region.next_offset - part.offset
                facts.append((self._shown_name(part), part.index, size, records, part.offset, -1, -1, -1, part.code))

    def _shown_name(self, part: FetchPartition) -> str:
        if part.name is not None:
            return part.name
        try:
            return self._name_of(part)
        except KafkaError:
            return encode_uuid(part.topic) if isinstance(part.topic, UUID) else part.topic

    @property
    def asks_for_something(self) -> bool:
        return bool(self.parts)

    def waiting(self) -> "SessionFetch":
        """Return the same fetch, with the results of its read, as a `SessionFetch` that can wait."""
        session = FetchSession((), self._context.clock.monotonic())
        session.adopt(self.parts)
        session.has_nothing(self._quiet)
        return SessionFetch(self.request, session, self._context)


class SessionFetch(Fetch):
    """A Fetch request of a session, or one that waits for data. Only the partitions that may have changed are read."""

    __slots__ = ("session",)

    def __init__(self, request: FetchRequest, session: FetchSession, context: FetchContext) -> None:
        self.request = request
        self._access = request.call.access
        self.session = session
        self.parts = session.to_look
        self._context = context

    def _has_nothing(self, quiet: list[FetchPartition]) -> None:
        self.session.has_nothing(quiet)

    def answer(self) -> Reply:
        self._note_partitions()
        request, session = self.request, self.session
        if session.id != NO_SESSION:
            reply = pack_answer(request, _with_something_to_say(session), session.id)
            _note_told(session.to_look)
            if session.to_tell:
                _note_told(session.to_tell)
                session.to_tell.clear()
            return reply
        kept = request.session_epoch == FULL_EPOCH and self._context.fetch_sessions.keep(session, session.asked_s)
        reply = pack_answer(request, session.partitions.values(), session.id)
        if kept:
            _note_told(session.partitions.values())
            session.to_tell.clear()
            session.watch_quiet()
        else:
            session.close()
        return reply

    def _throttled(self) -> Steps[Reply]:
        session = self.session
        if session.id == NO_SESSION:
            yield from session.closing()
        return pack_answer(self.request, (), session.id)

    def read_many(self) -> Steps[tuple[int, bool]]:
        """Read many partitions that may have changed, in steps. Each partition watches its log after its read."""
        session = self.session
        session.watch_as_looked_at()
        left, found, urgent = self.request.max_bytes, 0, False
        parts = list(self.parts)
        for at in range(0, len(parts), _PARTITIONS_OF_A_STEP):
            some = parts[at : at + _PARTITIONS_OF_A_STEP]
            left, found, is_urgent, quiet = self._read_parts(some, left, found)
            urgent = urgent or is_urgent
            self._has_nothing(quiet)
            for part in some:
                if part in session.to_look:
                    part.watch()
            yield
        return found, urgent

    def recount(self, part: FetchPartition) -> tuple[int, bool]:
        """Read a changed partition of a fetch session again.

        Return the number of additional bytes, and whether to answer at once.
        """
        before = 0 if part.region is None else part.region.length
        _, found, urgent, quiet = self._read_parts((part,), part.max_bytes, 0)
        if quiet:
            self._has_nothing(quiet)
        else:
            part.watch()
        return found - before, urgent

    @property
    def is_long(self) -> bool:
        """Return whether reading the partitions or packing the answer takes so long that it must run in steps."""
        session = self.session
        return len(session.to_look) > AT_ONCE_MAX or (
            session.id == NO_SESSION and len(session.partitions) > AT_ONCE_MAX
        )

    def answer_in_steps(self) -> Steps[Reply]:
        """Pack the answer for many partitions in steps. Each partition counts as reported when it is packed."""
        yield from self._noting()
        session = self.session
        if session.id != NO_SESSION:
            told = yield from self._with_something_to_say()
            reply = yield from pack_in_steps(self.request, told, session.id, self._note_told)
        else:
            everything = list(session.partitions.values())
            is_new = self.request.session_epoch == FULL_EPOCH
            if is_new and self._context.fetch_sessions.keep(session, session.asked_s):
                reply = yield from pack_in_steps(self.request, everything, session.id, self._note_told)
            else:
                reply = yield from pack_in_steps(self.request, everything, NO_SESSION, _nothing)
                yield from session.closing()
                yield from let_go(everything)
        return reply

    def reply_in_steps(self) -> Steps[Reply]:
        """Return the reply for many partitions, packed in steps."""
        call = self.request.call
        quotas = call.completion.quotas
        if quotas is None or self.request.replica >= 0:
            return (yield from self.answer_in_steps())
        size = yield from self._found_bytes()
        if not quotas.fetched(call, size):
            return (yield from self._throttled())
        reply = yield from self.answer_in_steps()
        quotas.fetched_more(call, _charged_bytes(reply, call) - size)
        return reply

    def _with_something_to_say(self) -> Steps[list[FetchPartition]]:
        session = self.session
        looked = list(session.to_look)
        found = yield from chosen(looked, lambda part: part.region is not None or part.code or part.has_news)
        found += yield from chosen(list(session.to_tell), lambda part: part not in session.to_look)
        return found

    def _note_told(self, part: FetchPartition) -> None:
        self.session.to_tell.pop(part, None)
        part.note_told()

    @property
    def asks_for_something(self) -> bool:
        return bool(self.session.partitions)

    def waiting(self) -> "SessionFetch":
        return self

    def abandoned(self) -> None:
        """Clean up after the client has disconnected before its answer."""
        session = self.session
        if session.id == NO_SESSION or session.is_over:
            self.request.call.do(session.closing())


class RepeatedSessionFetch(SessionFetch):
    """A fetch of a consumer whose requests name all its partitions each time."""

    __slots__ = ("_kept", "_repeated")

    def __init__(self, request: FetchRequest, repeated: RepeatedFetch, context: BrokerContext) -> None:
        super().__init__(request, repeated, context)
        self._repeated = repeated
        self._kept = context.repeated_fetches

    def answer(self) -> Reply:
        self._note_partitions()
        request, session = self.request, self._repeated
        # A partition that changed while the request waited may be in both.
        only_told = [part for part in session.to_tell if part not in session.to_look]
        session.to_tell.clear()
        for part in (*session.to_look, *only_told):
            pack_partition(part, request)
            if part.code:
                request.call.error = part.code
        reply = pack_all(request, session.topics)
        for part in session.to_look:
            if part.region is None and not part.code:
                only_told.append(part)
            # The packed part contains records or an error, so the next answer must not use it.
            part.region = None
            part.told = NOTHING
        _note_told(only_told)
        return reply

    def _throttled(self) -> Steps[Reply]:
        # The next request of the connection uses the same partitions.
        yield
        return pack_answer(self.request, (), NO_SESSION)

    @property
    def is_long(self) -> bool:
        session = self._repeated
        return len(session.to_look) > AT_ONCE_MAX or len(session.partitions) > _PACKED_AT_ONCE_MAX

    def answer_in_steps(self) -> Steps[Reply]:
        yield from self._noting()
        request, session = self.request, self._repeated
        # Copies, because both may change between two steps. The next request then reads the changed partitions.
        looked, told = list(session.to_look), list(session.to_tell)
        yield from self._pack_news(looked)
        among_looked = yield from gathered(looked)
        yield from self._pack_news((yield from chosen(told, lambda part: part not in among_looked)))
        reply = yield from pack_all_in_steps(request, session.topics)
        for part in list(session.to_look):
            self._forget_packed(part)
            yield
        return reply

    def _pack_news(self, parts: Iterable[FetchPartition]) -> Steps[None]:
        for part in parts:
            self._repeated.to_tell.pop(part, None)
            pack_partition(part, self.request)
            if part.code:
                self.request.call.error = part.code
            if part.region is None and not part.code:
                part.note_told()
            yield

    def _forget_packed(self, part: FetchPartition) -> None:
        """Mark a part packed with records or an error as outdated, so that the next answer does not use it."""
        if part.region is not None or part.code:
            part.region = None
            part.told = NOTHING

    def abandoned(self) -> None:
        if not self._kept.forget(self.request.call.connection.peer, self._repeated):
            self.request.call.do(self._repeated.closing())


class FollowerFetch(SessionFetch):
    """A Fetch request of a broker that follows partitions.

    The requested offset shows which records the follower has.
    """

    __slots__ = ("_led",)

    def __init__(self, request: FetchRequest, session: FetchSession, context: BrokerContext) -> None:
        super().__init__(request, session, context)
        self._led = context.led

    def _readable(self, part: FetchPartition) -> tuple[Log, int]:
        session = self.session
        name = self._name_of(part)
        if self._access is not None and not self._access.cluster():
            # The code that Kafka's followers expect for a partition.
            raise denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        leader = self._led(name, part.index)
        log, epoch = leader.log, leader.leader_epoch
        if part.leader_epoch == epoch and part.offset <= log.log_end_offset:
            # The follower has all records below the offset that it requests.
            leader.on_fetch(session.replica, session.broker_epoch, part.offset, session.asked_s, part.log_start)
        part.leader = leader
        up_to = log.log_end_offset
        if part.log is not log:
            part.read_from(log)
        check_epoch(part.leader_epoch, epoch)
        return log, up_to

    def _is_urgent(self, part: FetchPartition, log: Log) -> bool:
        return part.told[1] != log.log_start_offset > part.log_start >= 0


def _charged_bytes(reply: Reply, call: Call) -> int:
    """Return the bytes of a reply that Kafka charges: all without the header."""
    return sum(map(len, reply)) - (5 if call.flexible else 4)


def _with_something_to_say(session: FetchSession) -> list[FetchPartition]:
    found = [part for part in session.to_look if part.region is not None or part.code or part.has_news]
    if session.to_tell:
        found += [part for part in session.to_tell if part not in session.to_look]
    return found


def _note_told(parts: Iterable[FetchPartition]) -> None:
    for part in parts:
        part.note_told()


def _nothing(_: FetchPartition) -> None:
    """Ignore the partition, because the client has no session."""


def _check_history(part: FetchPartition, log: Log) -> None:
    """Raise KafkaError if the broker's metadata comes from a different history (for example, after a data restore).

    Kafka returns the point of divergence, to which a follower truncates. A metadata image cannot be truncated, so the
    broker loads a snapshot instead.
    """
    known, end = log.end_offset_for_epoch(part.last_epoch)
    if known < part.last_epoch or end < part.offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {part.last_epoch} ends at offset {end} on this controller"
        )
