"""Fetch (1), versions 4 to 15: long poll, sessions, min and max bytes, whole batches straight from the segment files.

Records leave as regions of the files: the connection sends them without a copy, or joins small ones into one write.

- With a session (KIP-227, apis.fetch_sessions) only partitions are looked at that have changed, or that the request
  names. Without one it is the same from the first look to the answer.
- Isolation makes no difference to the records: there are no transactions, the last stable offset is the high watermark.
- Followers read up to the log's end, and by what they ask for say what they have (KIP-101, KIP-903). Consumers read
  up to the high watermark, from the leader only.
"""

from collections.abc import Iterable

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext, ControllerContext, FetchContext
from broker_runtime.apis.fetch_messages import (
    CONSUMER,
    FetchRequest,
    Repeatable,
    pack_all,
    pack_answer,
    pack_partition,
    parts_of,
    read_chunk,
    read_request,
)
from broker_runtime.apis.fetch_sessions import (
    FINAL_EPOCH,
    FULL_EPOCH,
    NO_SESSION,
    NOTHING,
    FetchPartition,
    FetchSession,
)
from broker_runtime.apis.list_offsets import check_epoch
from broker_runtime.apis.repeated_fetch import RepeatedFetch
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.storage.log import Log
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import FETCH


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | PendingReply:
    request = read_request(reader, call)
    if request.repeatable is not None:
        repeated = _repeated(request, request.repeatable, context)
        if repeated is not None:
            return _answer(_RepeatedFetch(request, repeated, context), context)
        request.parts += parts_of(request.repeatable, call.version)
    session = _session(request, context)
    if isinstance(session, ErrorCode):
        return pack_answer(request, (), NO_SESSION, session)
    return _answer((_FollowersFetch if session.is_followers else _Fetch)(request, session, context), context)


def handle_metadata(reader: RequestReader, call: Call, context: ControllerContext) -> Reply | PendingReply:
    """Brokers follow the metadata as consumers do: nobody waits for them, and what is not committed they do not get."""
    request = read_request(reader, call)
    if request.repeatable is not None:
        request.parts += parts_of(request.repeatable, call.version)
    request.replica = CONSUMER
    session = _session(request, context)
    if isinstance(session, ErrorCode):
        return pack_answer(request, (), NO_SESSION, session)
    return _answer(_Fetch(request, session, context), context)


def _answer(fetch: "_Fetch", context: FetchContext) -> Reply | PendingReply:
    request = fetch.request
    request.max_bytes = min(request.max_bytes, context.settings.config.fetch_max_bytes)
    found, urgent = fetch.look()
    if found >= request.min_bytes or urgent or request.max_wait_ms <= 0 or not fetch.session.partitions:
        return fetch.answer()
    return _LongPoll(fetch, context).call


def _repeated(request: FetchRequest, said: Repeatable, context: BrokerContext) -> RepeatedFetch | None:
    """What its connection asked for before, brought up to date; None when that is not kept."""
    call, now_s = request.call, context.clock.monotonic()
    kept = context.repeated_fetches
    peer, size = call.connection.peer, sum(map(len, said.values()))
    fetch = kept.take(peer, (call.version, request.read_committed), size, now_s)
    if fetch is None:
        return None
    if not fetch.say(said, lambda topic, chunk: read_chunk(topic, chunk, call.version), now_s):
        fetch.close()
        return None
    kept.keep(peer, fetch)
    return fetch


def _session(request: FetchRequest, context: FetchContext) -> FetchSession | ErrorCode:
    """The session that the request goes on with or would begin, or what is wrong with it."""
    cache, now_s = context.fetch_sessions, context.clock.monotonic()
    if request.session_epoch in (FULL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            cache.remove(request.session_id)
        return FetchSession(request.parts, now_s, request.replica, request.broker_epoch, request.uses_topic_ids)
    session = cache.get(request.session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.uses_topic_ids != request.uses_topic_ids:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.update(request.parts, request.forgotten, now_s, request.broker_epoch)
    if not session.partitions:
        cache.remove(session.id)
        session.id = NO_SESSION
    else:
        cache.touch(session)
    return session


class _Fetch:
    """One request: what is there for it, and the answer from that."""

    __slots__ = ("_context", "_session", "request")

    def __init__(self, request: FetchRequest, session: FetchSession, context: FetchContext) -> None:
        self.request = request
        self._session = session
        self._context = context

    @property
    def session(self) -> FetchSession:
        return self._session

    def look(self) -> tuple[int, bool]:
        """Look at the partitions that may have news: (bytes found, whether something is to be told at once).

        The first one that has data may exceed every limit, so that a large batch never blocks a consumer (KIP-74).
        """
        session = self._session
        left, found, urgent = self.request.max_bytes, 0, False
        quiet = []
        for part in session.to_look:
            part.region = None
            part.code = 0
            try:
                log, up_to = self._readable(part)
                limit = min(left, part.max_bytes)
                if limit > 0 or not found:
                    part.region = region = log.read(part.offset, limit, min_one=not found, up_to=up_to)
                    if region is not None:
                        found += region.length
                        left -= region.length
                if session.is_followers and part.told[1] != log.log_start_offset > part.log_start >= 0:
                    urgent = True
                elif part.offset >= up_to:
                    quiet.append(part)
            except KafkaError as error:
                part.code = error.code
                part.unwatch()
                part.log = part.leader = None
                urgent = True
        if quiet:
            session.has_nothing(quiet)
        return found, urgent

    def _readable(self, part: FetchPartition) -> tuple[Log, int]:
        """The log and where it ends for who asks. Raises KafkaError."""
        name = self._name(part)
        log, epoch = self._context.led_log(name, part.index)
        if part.log is not log:
            part.read_from(log)
        check_epoch(part.leader_epoch, epoch)
        if name == METADATA_TOPIC and part.last_epoch >= 0:
            _check_history(part, log)
        return log, log.high_watermark

    def _name(self, part: FetchPartition) -> str:
        if isinstance(part.topic, str):
            return part.topic
        known = self._context.image.topics.by_id(part.topic)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {part.topic}")
        return known.name

    def answer(self) -> Reply:
        """Of what the last look has found."""
        request, session = self.request, self._session
        if session.id != NO_SESSION:
            reply = pack_answer(request, _with_something_to_say(session), session.id)
            _note_told(session.to_look)
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

    def abandoned(self) -> None:
        """The client has gone while it waited."""
        if self._session.id == NO_SESSION:
            self._session.close()


class _RepeatedFetch(_Fetch):
    """Of a consumer that names all its partitions each time."""

    __slots__ = ("_kept", "_repeated")

    def __init__(self, request: FetchRequest, repeated: RepeatedFetch, context: BrokerContext) -> None:
        super().__init__(request, repeated, context)
        self._repeated = repeated
        self._kept = context.repeated_fetches

    def answer(self) -> Reply:
        request, session = self.request, self._repeated
        # One that changed while the request waited may be in both.
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
            # Packed with its records or its error, it is not for the next answer.
            part.region = None
            part.told = NOTHING
        _note_told(only_told)
        return reply

    def abandoned(self) -> None:
        self._kept.forget(self.request.call.connection.peer)


class _FollowersFetch(_Fetch):
    """Of a follower: by what it asks for it says what it has."""

    __slots__ = ("_led",)

    def __init__(self, request: FetchRequest, session: FetchSession, context: BrokerContext) -> None:
        super().__init__(request, session, context)
        self._led = context.led

    def _readable(self, part: FetchPartition) -> tuple[Log, int]:
        session = self._session
        leader = self._led(self._name(part), part.index)
        log, epoch = leader.log, leader.leader_epoch
        if part.leader_epoch == epoch and part.offset <= log.log_end_offset:
            # It has everything below what it asks for.
            leader.on_fetch(session.replica, session.broker_epoch, part.offset, session.asked_s, part.log_start)
        part.leader = leader
        up_to = log.log_end_offset
        if part.log is not log:
            part.read_from(log)
        check_epoch(part.leader_epoch, epoch)
        return log, up_to


def _with_something_to_say(session: FetchSession) -> list[FetchPartition]:
    looked_at = [part for part in session.to_look if part.region is not None or part.code or part.has_news]
    return looked_at + [part for part in session.to_tell if part not in session.to_look]


def _note_told(parts: Iterable[FetchPartition]) -> None:
    for part in parts:
        log = part.log
        part.region = None
        part.told = (log.high_watermark, log.log_start_offset) if log is not None else NOTHING


def _check_history(part: FetchPartition, log: Log) -> None:
    """A broker has metadata of a history that this controller does not have (its data was restored, say).

    Kafka names the point of divergence, to which a follower goes back; an image cannot, and takes a snapshot.
    """
    known, end = log.end_offset_for_epoch(part.last_epoch)
    if known < part.last_epoch or end < part.offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {part.last_epoch} ends at offset {end} here")


class _LongPoll:
    """Waits for data or for max_wait_ms, whichever comes first, then answers with what is there."""

    __slots__ = ("_fetch", "_look_asked", "_on_change", "_session", "_timer", "_wakes", "call")

    def __init__(self, fetch: _Fetch, context: FetchContext) -> None:
        self._fetch = fetch
        self._session = session = fetch.session
        self._wakes = context.logs.wakes
        self._look_asked = False
        self.call = fetch.request.call.later(self._abandon)
        self._timer = context.call_later(fetch.request.max_wait_ms / 1000, self.call.guarded(self._look_and_answer))
        self._on_change = self.call.guarded(self._look_again)
        session.wait(self._look_soon, self._replaced)

    def _look_soon(self) -> None:
        """Not before all that has changed by now is known, and in a turn of its own."""
        if not self._look_asked:
            self._look_asked = True
            self._wakes.add(iter((self._on_change,)))

    def _look_again(self) -> None:
        self._look_asked = False
        if self.call.done:
            return
        found, urgent = self._fetch.look()
        if found >= self._fetch.request.min_bytes or urgent:
            self._answer()
        else:
            self._session.watch_all_looked_at()

    def _look_and_answer(self) -> None:
        self._fetch.look()
        self._answer()

    def _answer(self) -> None:
        self._stop()
        self.call.complete(self._fetch.answer())

    def _replaced(self, error: ErrorCode) -> None:
        """Another request goes on with the session, or the session is over."""
        if error == ErrorCode.NONE:
            self._look_and_answer()
        else:
            self._stop()
            self.call.complete(pack_answer(self._fetch.request, (), self._session.id, error))

    def _abandon(self) -> None:
        """The client has gone. What it has asked for is kept if that is a session's, for it may come back."""
        self._stop()
        self._fetch.abandoned()

    def _stop(self) -> None:
        self._timer.cancel()
        self._session.stop_waiting()


API = ApiSpec(key=FETCH, name="Fetch", versions=(4, 15), handle=handle, reads="frame")
METADATA_API = ApiSpec(
    key=FETCH, name="Fetch", versions=(4, 15), handle=handle_metadata, reads="frame", on_standby=True
)
