"""Replies leave in the order of their requests, and only what the first pending reply admits is handled behind it."""

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.owed_replies import OwedReplies
from broker_runtime.wire.reply import PendingReply

PRODUCE, FETCH = memoryview(b"produce"), memoryview(b"fetch")


def pending(*, admits_produce: bool = False) -> PendingReply:
    reply = PendingReply()
    if admits_produce:
        reply.admits = lambda frame: frame == PRODUCE
    return reply


def test_a_reply_that_exists_waits_for_the_pending_one_before_it() -> None:
    first = pending()
    owed = OwedReplies(first, 10)
    owed.add((b"second",))
    assert (owed.taken(), len(owed)) == ([], 2)
    first.complete((b"first",))
    assert (owed.taken(), len(owed)) == ([(b"first",), (b"second",)], 0)


def test_only_requests_that_the_first_pending_reply_admits_are_handled_behind_it() -> None:
    assert not OwedReplies(pending(), 10).admits(PRODUCE)
    owed = OwedReplies(pending(admits_produce=True), 10)
    assert (owed.admits(PRODUCE), owed.admits(FETCH)) == (True, False)


def test_no_request_is_handled_behind_a_later_reply_that_admits_none() -> None:
    owed = OwedReplies(pending(admits_produce=True), 10)
    owed.add(pending(admits_produce=True))
    assert owed.admits(PRODUCE)
    owed.add(pending())
    assert not owed.admits(PRODUCE)


def test_no_more_than_the_limit_wait() -> None:
    owed = OwedReplies(pending(admits_produce=True), 2)
    assert owed.is_open
    owed.add(pending(admits_produce=True))
    assert not owed.is_open


def test_a_refusal_takes_its_place_behind_earlier_replies_and_admits_nothing() -> None:
    first = pending(admits_produce=True)
    owed = OwedReplies(first, 10)
    owed.refuse(ProtocolError("malformed", "not a request"))
    assert not owed.admits(PRODUCE)
    first.complete((b"first",))
    reply, refusal = owed.taken()
    assert reply == (b"first",)
    assert isinstance(refusal, ProtocolError)


def test_a_pending_reply_that_ends_without_bytes_closes_the_connection() -> None:
    first = pending()
    owed = OwedReplies(first, 10)
    first.complete(None)
    assert owed.taken() == [None]


def test_the_end_of_the_connection_cancels_what_is_pending() -> None:
    cancelled: list[str] = []
    first = pending(admits_produce=True)
    first.on_cancel = lambda: cancelled.append("first")
    owed = OwedReplies(first, 10)
    owed.add((b"second",))
    owed.cancel()
    assert (cancelled, len(owed)) == (["first"], 0)
