"""Charge a client's changes of partitions to its quota, on the active controller (KIP-599). Pure."""

from broker_runtime.apis.request.call import Call
from broker_runtime.client_quotas.ladder import Caller
from broker_runtime.client_quotas.mutation_quota import MutationCharge, MutationQuota
from broker_runtime.clock import Clock


class ChargedCall:
    """The charge of one call for created or deleted partitions.

    `record` runs while the controller decides, so the charge itself knows the time.
    """

    __slots__ = ("_call", "_charge", "_clock")

    def __init__(self, call: Call, charge: MutationCharge, clock: Clock) -> None:
        self._call = call
        self._charge = charge
        self._clock = clock

    def record(self, partitions: int) -> None:
        """Charge the created or deleted partitions of one topic to the client quota.

        Raises KafkaError(THROTTLING_QUOTA_EXCEEDED).
        """
        self._charge.record(partitions, self._now_ms())

    def throttle(self) -> None:
        """Throttle the call, before its answer is packed."""
        throttle_ms = self._charge.throttle_ms(self._now_ms())
        if throttle_ms:
            self._call.throttle(throttle_ms)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class ChargedMutations:
    """Charges calls that create or delete partitions to their callers' quotas."""

    def __init__(self, quota: MutationQuota, clock: Clock) -> None:
        self.quota = quota
        self._clock = clock

    def charge(self, call: Call, *, strict: bool) -> ChargedCall:
        """Return the charge of a call to the client quota for changes of the cluster.

        If `strict`, topics over the quota are refused.
        """
        caller: Caller = call.connection.principal.name, call.client_id or ""
        return ChargedCall(call, self.quota.charge(caller, strict=strict), self._clock)
