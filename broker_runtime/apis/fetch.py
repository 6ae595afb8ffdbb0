"""Fetch (1), versions 4 to 18: long poll, sessions, min and max bytes, whole batches straight from the segment files.

Records leave as regions of the files: the connection sends them without a copy, or joins small ones into one write.

- With a session (KIP-227, apis.fetch_session) only partitions are looked at that have changed, or that the request
  names. Without one it is the same while the request waits.
- Isolation makes no difference to the records: there are no transactions, the last stable offset is the high watermark.
- Followers read up to the log's end, and by what they ask for say what they have (KIP-101, KIP-903). Consumers read
  up to the high watermark, from the leader only.
"""

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, BrokerContext, ControllerContext, FetchContext
from broker_runtime.apis.fetch_answer import pack_answer
from broker_runtime.apis.fetch_look import Fetch, FollowerFetch, RepeatedSessionFetch, SessionFetch
from broker_runtime.apis.fetch_request import CONSUMER, FetchRequest, Repeatable, asked_by, asked_in, read_request
from broker_runtime.apis.fetch_session import FINAL_EPOCH, FULL_EPOCH, NO_SESSION, FetchSession
from broker_runtime.apis.long_poll import LongPoll
from broker_runtime.apis.repeated_fetch import RepeatedFetch
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import PendingReply, Reply
from broker_runtime.wire.versions import FETCH


def handle(reader: RequestReader, call: Call, context: BrokerContext) -> Reply | PendingReply:
    request = read_request(reader, call)
    if request.repeatable is not None:
        repeated = _repeated(request, request.repeatable, context)
        if repeated is not None:
            return _answer(RepeatedSessionFetch(request, repeated, context), context)
        request.asked += asked_in(request.repeatable, call.version)
    if request.wants_no_session:
        return _answer(Fetch(request, context), context)
    session = _session(request, context)
    if isinstance(session, ErrorCode):
        return pack_answer(request, (), NO_SESSION, session)
    return _answer((FollowerFetch if session.is_followers else SessionFetch)(request, session, context), context)


def handle_metadata(reader: RequestReader, call: Call, context: ControllerContext) -> Reply | PendingReply:
    """Brokers follow the metadata as consumers do: nobody waits for them, and what is not committed they do not get."""
    request = read_request(reader, call)
    if request.repeatable is not None:
        request.asked += asked_in(request.repeatable, call.version)
    request.replica = CONSUMER
    if request.wants_no_session:
        return _answer(Fetch(request, context), context)
    session = _session(request, context)
    if isinstance(session, ErrorCode):
        return pack_answer(request, (), NO_SESSION, session)
    return _answer(SessionFetch(request, session, context), context)


def _answer(fetch: Fetch, context: FetchContext) -> Reply | PendingReply:
    request = fetch.request
    request.max_bytes = min(request.max_bytes, context.settings.config.fetch_max_bytes)
    found, urgent = fetch.look()
    if found >= request.min_bytes or urgent or request.max_wait_ms <= 0 or not fetch.asks_for_something:
        return fetch.answer()
    return LongPoll(fetch.waiting(), context).call


def _repeated(request: FetchRequest, said: Repeatable, context: BrokerContext) -> RepeatedFetch | None:
    """What its connection asked for before, brought up to date; None when that is not kept."""
    call, now_s = request.call, context.clock.monotonic()
    kept = context.repeated_fetches
    peer, size = call.connection.peer, sum(map(len, said.values()))
    fetch = kept.take(peer, (call.version, request.read_committed), size, now_s)
    if fetch is None:
        return None
    if not fetch.say(said, lambda topic, chunk: asked_by(topic, chunk, call.version), now_s):
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
        return FetchSession(request.asked, now_s, request.replica, request.broker_epoch, request.uses_topic_ids)
    session = cache.get(request.session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.uses_topic_ids != request.uses_topic_ids:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.update(request.asked, request.forgotten, now_s, request.broker_epoch)
    if not session.partitions:
        cache.remove(session.id)
        session.id = NO_SESSION
    else:
        cache.touch(session)
    return session


API = ApiSpec(key=FETCH, name="Fetch", versions=(4, 18), handle=handle, reads="frame")
METADATA_API = ApiSpec(
    key=FETCH, name="Fetch", versions=(4, 18), handle=handle_metadata, reads="frame", on_standby=True
)
