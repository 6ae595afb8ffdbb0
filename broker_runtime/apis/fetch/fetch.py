"""Fetch (1), versions 4 to 18: long poll, sessions, min and max bytes, whole batches straight from the segment files.

The answer refers to records as regions of the segment files. The connection sends them without a copy, or joins small
ones into one write.

- In a session (KIP-227, apis.fetch_sessions.fetch_session) a request reads only partitions that have changed or that it
  names. A request without a session does the same while it waits.
- A client that reads committed records gets those below the last stable offset, with the aborted transactions among
  them (KIP-98). It leaves their records out itself: batches are sent whole, and unread.
- Followers read up to the log's end. The offset that a follower requests shows which records it has (KIP-101, KIP-903).
  Other consumers read up to the high watermark. All consumers read from the leader only.
"""

from broker_runtime.apis.fetch.fetch_answer import pack_answer
from broker_runtime.apis.fetch.fetch_look import Fetch, FollowerFetch, RepeatedSessionFetch, SessionFetch
from broker_runtime.apis.fetch.fetch_request import (
    CONSUMER,
    SHORT_BYTES,
    FetchRequest,
    Repeatable,
    asked_by,
    let_go_of,
    not_repeated,
    read_in_steps,
    read_request,
)
from broker_runtime.apis.fetch.long_poll import LongPoll
from broker_runtime.apis.fetch_sessions.fetch_session import FINAL_EPOCH, FULL_EPOCH, NO_SESSION, FetchSession
from broker_runtime.apis.fetch_sessions.repeated_fetch import RepeatedFetch
from broker_runtime.apis.request.call import Call, CallQuotas
from broker_runtime.apis.request.context import ApiSpec, BrokerContext, ControllerContext, FetchContext
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.messages import check_size
from broker_runtime.wire.reply import Reply
from broker_runtime.wire.versions import FETCH

_PARTITIONS_OF_A_STEP = 16

_Handled = Reply | Call | Steps[Reply | Call]


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> _Handled:
    if reader.left > SHORT_BYTES:
        return _in_steps(_kept(reader, call), call, context)
    request = read_request(reader, call)
    if request.wants_no_session:
        return _answer(Fetch(request, context), context)
    session = _session(request, context)
    if isinstance(session, ErrorCode):
        return pack_answer(request, (), NO_SESSION, session)
    _add_asked(session, request, context)
    return _answer(_of_session(request, session, context), context)


def handle_metadata(reader: RequestReader, call: Call, context: ControllerContext) -> _Handled:
    """Answer a fetch of the metadata log. Brokers read the log like consumers: only committed records, without a wait.

    The replica id of the request is ignored.
    """
    if reader.left > SHORT_BYTES:
        return _metadata_in_steps(_kept(reader, call), call, context)
    request = read_request(reader, call)
    return _about_metadata(request, context)


def _metadata_in_steps(reader: RequestReader, call: Call, context: ControllerContext) -> Steps[Reply | Call]:
    request = yield from read_in_steps(reader, call)
    yield from not_repeated(request)
    request.replica = CONSUMER
    if _is_denied(call, context):
        return pack_answer(request, (), NO_SESSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.wants_no_session:
        session = FetchSession((), context.clock.monotonic())
    else:
        found = _session(request, context)
        if isinstance(found, ErrorCode):
            return pack_answer(request, (), NO_SESSION, found)
        session = found
    return (yield from _asked_in_steps(SessionFetch(request, session, context), context))


def _about_metadata(request: FetchRequest, context: ControllerContext) -> _Handled:
    request.replica = CONSUMER
    if _is_denied(request.call, context):
        return pack_answer(request, (), NO_SESSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.wants_no_session:
        return _answer(Fetch(request, context), context)
    session = _session(request, context)
    if isinstance(session, ErrorCode):
        return pack_answer(request, (), NO_SESSION, session)
    _add_asked(session, request, context)
    return _answer(SessionFetch(request, session, context), context)


def _is_denied(call: Call, context: ControllerContext) -> bool:
    """Return whether the client may not read the metadata: only brokers may. A standby has no ACLs and no metadata."""
    access = call.access
    return access is not None and context.controller.active and not access.cluster()


def _kept(reader: RequestReader, call: Call) -> RequestReader:
    """Return a reader of the request that stays valid after the handler returns. Raises RequestTooLargeError."""
    check_size("Fetch", reader.left, reader.limits)
    return reader.counting(FETCH).kept(call.connection.keep_frame)


def _in_steps(reader: RequestReader, call: Call, context: BrokerContext) -> Steps[Reply | Call]:
    """Answer a request that may ask for many partitions."""
    request = yield from read_in_steps(reader, call)
    call.connection.release_frame()
    if request.repeatable is not None:
        repeated = yield from _repeated(request, request.repeatable, context)
        if repeated is not None:
            return (yield from _read_and_answer(RepeatedSessionFetch(request, repeated, context), context))
        yield from not_repeated(request)
    if request.wants_no_session:
        session = FetchSession((), context.clock.monotonic())
        return (yield from _asked_in_steps(SessionFetch(request, session, context), context))
    found = _session(request, context)
    if isinstance(found, ErrorCode):
        return pack_answer(request, (), NO_SESSION, found)
    return (yield from _asked_in_steps(_of_session(request, found, context), context))


def _of_session(request: FetchRequest, session: FetchSession, context: BrokerContext) -> SessionFetch:
    return (FollowerFetch if session.is_followers else SessionFetch)(request, session, context)


def _add_asked(session: FetchSession, request: FetchRequest, context: FetchContext) -> None:
    """Add the partitions of a short request to the session."""
    session.add(request.asked)
    if request.is_incremental:
        session.drop(request.forgotten)
    _note_partitions(session, context)


def _asked_in_steps(fetch: SessionFetch, context: FetchContext) -> Steps[Reply | Call]:
    """Add the partitions of a request to the session, then read the session's partitions."""
    session, request = fetch.session, fetch.request
    session.is_busy = True
    is_told = False
    try:
        request.asked.reverse()
        while request.asked:
            session.add(request.asked[: -_PARTITIONS_OF_A_STEP - 1 : -1])
            del request.asked[-_PARTITIONS_OF_A_STEP:]
            yield
        while request.forgotten:
            if request.is_incremental:
                session.drop(request.forgotten[-_PARTITIONS_OF_A_STEP:])
            del request.forgotten[-_PARTITIONS_OF_A_STEP:]
            yield
        is_told = True
    finally:
        session.is_busy = False
        if not is_told:
            fetch.abandoned()
    _note_partitions(session, context)
    return (yield from _read_and_answer(fetch, context))


def _answer(fetch: Fetch, context: FetchContext) -> _Handled:
    request = fetch.request
    if isinstance(fetch, SessionFetch) and fetch.is_long:
        return _read_and_answer(fetch, context)
    _limit_bytes(request, context)
    found, urgent = fetch.read()
    if _is_answered(fetch, found, urgent):
        return fetch.reply()
    return LongPoll(fetch.waiting(), found, context).call


def _limit_bytes(request: FetchRequest, context: FetchContext) -> None:
    """Limit the bytes of a fetch. As in Kafka, a fetch does not wait for more bytes than its answer may contain."""
    request.max_bytes = min(request.max_bytes, context.settings.config.fetch_max_bytes)
    quotas = request.call.completion.quotas
    if quotas is not None:
        _limit_by_quota(request, quotas)
    request.min_bytes = min(request.min_bytes, request.max_bytes)


def _limit_by_quota(request: FetchRequest, quotas: CallQuotas) -> None:
    """Limit the bytes of a consumer's fetch to what its quota admits in one window, so that it always makes progress.

    A follower's fetch has no quota. With an authorizer, a client that may not act as a broker is charged as a consumer.
    """
    if request.replica >= 0:
        access = request.call.access
        if access is None or access.cluster(hides=True):
            request.call.is_exempt = True
            return
        request.replica = CONSUMER
    most = quotas.fetch_bytes_max(request.call)
    if most is not None:
        request.max_bytes = min(request.max_bytes, most)


def _is_answered(fetch: Fetch, found: int, urgent: bool) -> bool:
    request = fetch.request
    return found >= request.min_bytes or urgent or request.max_wait_ms <= 0 or not fetch.asks_for_something


def _read_and_answer(fetch: SessionFetch, context: FetchContext) -> Steps[Reply | Call]:
    """Read many partitions, and answer or wait."""
    request, session = fetch.request, fetch.session
    _limit_bytes(request, context)
    if not fetch.is_long and not session.is_over:
        answer = _answer(fetch, context)
        assert isinstance(answer, tuple | Call)
        return answer
    session.is_busy = is_open = True
    try:
        found, urgent = yield from fetch.read_many()
        if session.is_over:
            return pack_answer(request, (), session.id, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if _is_answered(fetch, found, urgent):
            reply = yield from fetch.reply_in_steps()
            session.stop_waiting()
            is_open = False
            return reply
        is_open = False
        return LongPoll(fetch, found, context).call
    finally:
        session.is_busy = False
        if is_open:
            # The client has disconnected, or another request has ended the session.
            session.stop_waiting()
            fetch.abandoned()


def _repeated(request: FetchRequest, requested: Repeatable, context: BrokerContext) -> Steps[RepeatedFetch | None]:
    """Return the previous fetch of the connection, updated with this request. None if it is not kept."""
    call, now_s = request.call, context.clock.monotonic()
    kept = context.repeated_fetches
    peer, size = call.connection.peer, sum(map(len, requested.values()))
    fetch = kept.take(peer, (call.version, request.read_committed), size, now_s)
    if fetch is None:
        return None
    is_kept = False
    try:
        if not (yield from fetch.update(requested, lambda topic, chunk: asked_by(topic, chunk, call.version), now_s)):
            return None
        is_kept = True
        _check_again(fetch, request)
        kept.keep(peer, fetch)
    finally:
        if not is_kept:
            call.do(fetch.closing())
    request.repeatable = None
    yield from let_go_of(requested)
    return fetch


def _session(request: FetchRequest, context: FetchContext) -> FetchSession | ErrorCode:
    """Return the session that the request continues or would begin, without its new partitions, or an error code."""
    cache, now_s = context.fetch_sessions, context.clock.monotonic()
    if request.session_epoch in (FULL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            cache.remove(request.session_id)
        return FetchSession((), now_s, request.replica, request.broker_epoch, request.uses_topic_ids)
    session = cache.get(request.session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch or session.is_busy:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.uses_topic_ids != request.uses_topic_ids:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.advance(now_s, request.broker_epoch)
    _check_again(session, request)
    return session


def _check_again(session: FetchSession, request: FetchRequest) -> None:
    """Read all partitions again if another client or other ACLs may see others than in the previous request."""
    access = request.call.access
    if access is not None and session.allowed_by != access.state:
        session.allowed_by = access.state
        session.to_look.update(dict.fromkeys(session.partitions.values()))


def _note_partitions(session: FetchSession, context: FetchContext) -> None:
    """Update the cache after the partitions of the session have changed."""
    if session.id == NO_SESSION:
        return
    cache = context.fetch_sessions
    if not session.partitions:
        cache.remove(session.id)
        session.id = NO_SESSION
    elif cache.get(session.id) is session:
        cache.touch(session)


API = ApiSpec(key=FETCH, name="Fetch", versions=(4, 18), handle=handle, reads="frame", counts_itself=True)
METADATA_API = ApiSpec(
    key=FETCH,
    name="Fetch",
    versions=(4, 18),
    handle=handle_metadata,
    reads="frame",
    counts_itself=True,
    on_standby=True,
)
