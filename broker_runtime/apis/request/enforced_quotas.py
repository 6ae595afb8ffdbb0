"""Enforce client quotas on the calls of a broker (KIP-13, KIP-124, KIP-219). Pure.

Produce is charged for its request, and its records are appended in any case. Fetch is charged for its answer; over the
quota the answer is empty, and its bytes are taken back. All other requests are charged only for their time. The time of
a request is known after its answer has been packed, so it counts for the caller's next request, as the time of network
threads does in Apache Kafka.

A client that has not authenticated is not charged: it could use up the buckets with client ids, without a password.
"""

from collections.abc import Callable

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import Gate, Handled
from broker_runtime.client_quotas.ladder import Caller
from broker_runtime.client_quotas.rate_quota import RateQuota
from broker_runtime.security.principal import UNAUTHENTICATED
from broker_runtime.wire.versions import FETCH, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafka_bytes.own_keys import REPLICA_RANGE

_EXEMPT = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE, REPLICA_RANGE})
"""Requests of a client that has not authenticated yet, and requests that only brokers send."""
_OWN_CHARGE = _EXEMPT | {PRODUCE, FETCH}
"""APIs that are not throttled before their handler."""
_US = 1_000_000


def caller_of(call: Call) -> Caller:
    """Return the user and the client id that a call is charged to."""
    return call.connection.principal.name, call.client_id or ""


class EnforcedQuotas:
    """The client quotas of bytes and of request time, as configured by metadata: implements `CallQuotas`.

    `now` returns seconds.
    """

    def __init__(self, produce: RateQuota, fetch: RateQuota, request: RateQuota, now: Callable[[], float]) -> None:
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.exempt_s_total = 0.0
        """Time of requests that count for no quota, in seconds."""
        self._now = now

    def changed(self) -> None:
        """Adopt the current quotas of the metadata."""
        for quota in (self.produce, self.fetch, self.request):
            quota.changed()

    def begun(self, call: Call) -> None:
        """Throttle a call whose client exceeds its request quota, before the call's handler runs."""
        if call.api.key not in _OWN_CHARGE and call.connection.principal is not UNAUTHENTICATED:
            self._throttle(call, self.request.throttle_ms(caller_of(call), int(call.received_s * 1000)), self.request)

    def produced(self, call: Call) -> None:
        """Charge and throttle a Produce call. Without an answer (acks 0), the request quota does not apply."""
        caller, now_ms = caller_of(call), self._now_ms()
        of_bytes = self.produce.record(caller, call.request_bytes, now_ms)
        if call.acks == 0:
            call.is_exempt = True
            of_time = 0
        else:
            of_time = self.request.throttle_ms(caller, now_ms)
        if of_bytes > of_time:
            self._throttle(call, of_bytes, self.produce)
        else:
            self._throttle(call, of_time, self.request)

    def fetch_bytes_max(self, call: Call) -> int | None:
        """Return the maximum of bytes of one Fetch answer; None without a quota."""
        return self.fetch.window_units(caller_of(call))

    def fetched(self, call: Call, size: int) -> bool:
        """Charge a Fetch call for an answer of `size` bytes.

        Returns False, and throttles the call, if that is too much.
        """
        caller, now_ms = caller_of(call), self._now_ms()
        of_time = self.request.throttle_ms(caller, now_ms)
        of_bytes = self.fetch.record(caller, size, now_ms)
        if not of_time and not of_bytes:
            return True
        self.fetch.correct(caller, -size, now_ms)
        if of_bytes > of_time:
            self._throttle(call, of_bytes, self.fetch)
        else:
            self._throttle(call, of_time, self.request)
        return False

    def fetched_more(self, call: Call, more: int) -> None:
        """Charge `more` additional bytes to a Fetch that was charged already."""
        if more:
            self.fetch.correct(caller_of(call), more, self._now_ms())

    def ended(self, call: Call) -> None:
        """Charge the time of a call to the request quota.

        A pending call is charged for the time until its handler returned, and for its time slices.
        """
        handled_s: float = getattr(call, "handled_s", 0.0) or call.completed_s
        time_s = handled_s - call.received_s + call.sliced_s
        if call.is_exempt or call.api.key in _EXEMPT or call.connection.principal is UNAUTHENTICATED:
            self.exempt_s_total += time_s
        elif time_s > 0:
            self.request.correct(caller_of(call), int(time_s * _US), int(call.completed_s * 1000))

    def _throttle(self, call: Call, throttle_ms: int, quota: RateQuota) -> None:
        if throttle_ms:
            quota.note_throttled(caller_of(call), throttle_ms)
            call.throttle(throttle_ms)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)


def throttling(quotas: EnforcedQuotas, gate: Gate | None) -> Gate:
    """Return a gate that throttles callers over their quota, also callers that `gate` refuses."""

    def check(call: Call) -> Handled | None:
        quotas.begun(call)
        return None if gate is None else gate(call)

    return check
