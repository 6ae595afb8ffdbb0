"""The quota of partitions that are created and deleted, on the active controller (KIP-599). Pure."""

from collections.abc import Callable

from broker_runtime.client_quotas.ladder import Caller, Entities, Limit
from broker_runtime.client_quotas.managed_quota import ManagedQuota, Windows
from broker_runtime.client_quotas.token_bucket import Tokens
from broker_runtime.errors import ErrorCode, KafkaError

CONTROLLER_MUTATION_RATE = "controller_mutation_rate"


class MutationQuota(ManagedQuota[Tokens]):
    """The client quota of created and deleted partitions. A bucket has `num` windows of tokens."""

    def __init__(self, windows: Windows, entities: Callable[[], Entities]) -> None:
        burst_s = windows.num * windows.size_ms / 1000

        def new(now_ms: int) -> Tokens:
            return Tokens(burst_s, now_ms)

        super().__init__(CONTROLLER_MUTATION_RATE, windows, entities, new)

    def charge(self, caller: Caller, *, strict: bool) -> "MutationCharge":
        """Return the object that charges one request to its caller.

        If not `strict`, no change is refused, because the client's version has no error for it.
        """
        return MutationCharge(self, self.limit_now(caller), strict=strict)


class MutationCharge:
    """The charge to the client quota for one request that creates or deletes partitions.

    Without a limit, the charge does nothing.
    """

    __slots__ = ("_limit", "_quota", "_strict", "_throttle_ms", "_throttled_at_ms")

    def __init__(self, quota: MutationQuota, limit: Limit | None, *, strict: bool) -> None:
        self._quota = quota
        self._limit = limit
        self._strict = strict
        self._throttle_ms = self._throttled_at_ms = 0

    def record(self, partitions: int, now_ms: int) -> None:
        """Charge the created or deleted partitions of one topic to the client quota.

        Raises KafkaError(THROTTLING_QUOTA_EXCEEDED).

        A strict charge refuses a topic while the number of tokens is negative, and takes no tokens for that topic. So
        one topic of any size passes when the number is not negative.
        """
        limit = self._limit
        if limit is None:
            return
        tokens = self._quota.buckets.at(limit.bucket, now_ms)
        if not self._strict:
            tokens.take(partitions, limit.quota, now_ms)
        throttle_ms = tokens.throttle_ms(limit.quota, now_ms)
        if throttle_ms:
            self._throttle_ms, self._throttled_at_ms = throttle_ms, now_ms
            if self._strict:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        if self._strict:
            tokens.take(partitions, limit.quota, now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """Return the throttle time of the request's answer in milliseconds, and count it."""
        limit = self._limit
        left_ms = self._throttle_ms - (now_ms - self._throttled_at_ms)
        if limit is None or not self._throttle_ms or left_ms <= 0:
            return 0
        tokens = self._quota.buckets.used(limit.bucket)
        if tokens is not None:
            self._quota.count(tokens, limit, left_ms)
        return left_ms
