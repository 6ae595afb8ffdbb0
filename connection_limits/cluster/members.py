"""The brokers of the cluster as the controller knows them: who has a lease, who is silent, who is unknown. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from connection_limits.cluster.reports import LEASES_UNTIL_BOUND, Report, Verdict

_WAITS_LONGER = 9, 8
"""The controller waits for the end of a time this much longer than a broker does: clocks may differ in speed."""
_UNANSWERED_MAX = 3
"""A broker that has sent more reports since its last answer counts with an equal part: it may soon use one.

Each of them takes at most three quarters of a lease, the timeout and the pause before the next one.
"""


class HeldBy(Protocol):
    """One rate of the cluster, and the shares of it that brokers have, by their ids."""

    rate: int
    holders: "dict[int, Holding]"


class Holding:
    """The largest share of one rate that one broker may have: an answer may be on its way, or lost."""

    __slots__ = ("demand", "rate", "share")

    def __init__(self) -> None:
        self.rate = 0
        """The rate of the cluster by the configuration of this broker."""
        self.share = 0
        self.demand = 0


class Standing:
    """One broker process that has reported to this controller."""

    __slots__ = (
        "broker_id",
        "brokers",
        "brokers_offered",
        "due",
        "epoch",
        "holdings",
        "reviewed_at",
        "sequence",
        "unanswered",
        "until_ms",
    )

    def __init__(self, broker_id: int, epoch: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.sequence = -1
        self.unanswered = 0
        """Number of reports since the last one whose answer the broker has applied."""
        self.until_ms = 0
        """End of the lease by the controller's clock."""
        self.brokers = self.brokers_offered = 1
        """Numbers of brokers by which the broker may compute its reserve: one of them is the last that it has read."""
        self.holdings: dict[str, Holding] = {}
        self.due: set[str] = set()
        """Rates of which this broker is to get another share."""
        self.reviewed_at = 0
        """Value of `Members.equal_version` at which all rates of this broker became due."""

    def is_live(self, now_ms: int) -> bool:
        """Return whether the lease of its shares has not ended."""
        return now_ms < self.until_ms

    def may_use(self, held: Holding, now_ms: int) -> int:
        """Return the largest part of a rate that the broker may use now.

        After the end of its lease this is at most its reserve: an equal part by the number of brokers that it knows.
        """
        if now_ms < self.until_ms:
            return held.share
        return min(held.share, held.rate // min(self.brokers, self.brokers_offered))


class Members:
    """The standings of the brokers in one term of a controller.

    `registered` has the epochs of all brokers when the term begins, by id: they may hold shares of the previous term. A
    broker that the controller has just fenced may serve clients for a moment longer, if its clock is slower. So it
    counts for an eighth of `session_ms`, the session timeout.
    """

    def __init__(self, lease_ms: int, session_ms: int, registered: Mapping[int, int], now_ms: int) -> None:
        self.lease_ms = lease_ms
        self.standings: dict[int, Standing] = {}
        """Brokers that have reported, by id."""
        self.unknown: dict[int, int] = {}
        """Brokers that serve clients and have not reported, by id, and since when."""
        self.version = 0
        """Rises when a broker comes or goes, falls silent or reports again, and with `equal_version`."""
        self.equal_version = 0
        """Rises when other brokers may use an equal part of every rate: all shares must be reviewed."""
        self._equal: tuple[int, frozenset[int]] = (1, frozenset())
        """The number of registered brokers, and the ids of those that count with an equal part."""
        self._serving = dict(registered)
        """Epochs of the brokers that may serve clients, by id, those included that were just fenced."""
        self._fenced: dict[int, int] = {}
        """Brokers of `_serving` that are fenced, and since when this is known."""
        self._session_ms = session_ms
        self._awaited = dict(registered)
        self._began_ms = now_ms
        self._registered = 1
        self.silent: Sequence[Standing] = ()
        """Brokers whose lease had ended at the last update."""
        self.live: frozenset[int] = frozenset()
        """Ids of the brokers of `standings` that are not in `silent`."""

    @property
    def all_known(self) -> bool:
        """Whether every broker that may hold shares of the previous term has reported, or serves no clients."""
        return not self._awaited

    @property
    def count(self) -> int:
        """Number of brokers that have reported or serve clients."""
        return max(1, len(self.standings) + len(self.unknown))

    def _after_ms(self, leases: int) -> int:
        more, of = _WAITS_LONGER
        return leases * self.lease_ms * more // of

    def _may_serve(self, unfenced: Mapping[int, int], now_ms: int) -> Mapping[int, int]:
        """Return the epochs of the brokers that may serve clients: the unfenced ones, and those that were just fenced.

        A broker that is registered with another epoch is another process: the former one has ended or fenced itself.
        """
        more, of = _WAITS_LONGER
        longer_ms = self._session_ms * (more - of) // of
        self._fenced = {
            one: since_ms
            for one in self._serving
            if one not in unfenced and now_ms - (since_ms := self._fenced.get(one, now_ms)) < longer_ms
        }
        self._serving = {**{one: self._serving[one] for one in self._fenced}, **unfenced}
        return self._serving

    def update(self, unfenced: Mapping[int, int], registered: int, now_ms: int) -> list[Standing]:
        """Record the epochs of the unfenced brokers, and the number of registered brokers.

        Return the standings of the brokers that have gone.
        """
        serving = self._may_serve(unfenced, now_ms)
        self._registered = max(registered, 1)
        # A broker that starts or stops keeps its standing for a lease.
        gone = [one for one in self.standings.values() if one.broker_id not in serving and not one.is_live(now_ms)]
        for standing in gone:
            del self.standings[standing.broker_id]
        before, known = self.unknown, self.standings
        self.unknown = {one: before.get(one, now_ms) for one in serving if one not in known}
        live = frozenset(one for one, standing in known.items() if standing.is_live(now_ms))
        self.silent = [one for one in known.values() if one.broker_id not in live]
        if gone or live != self.live or before.keys() != self.unknown.keys():
            self.version += 1
        self.live = live
        equal = self._registered, frozenset(self._count_with_equal_parts(now_ms))
        if equal != self._equal:
            self._equal = equal
            self.equal_version += 1
            self.version += 1
        if self._awaited:
            # By then a silent broker uses at most an equal part. A broker of another epoch is another process.
            is_over = now_ms - self._began_ms >= self._after_ms(LEASES_UNTIL_BOUND)
            self._awaited = {
                one: epoch for one, epoch in self._awaited.items() if not is_over and serving.get(one) == epoch
            }
        return gone

    def begin_report(self, report: Report, now_ms: int) -> tuple[Standing | None, Verdict]:
        """Return the standing of the reporting broker with another lease; None if the verdict is a refusal."""
        known = self.standings.get(report.broker_id)
        if known is not None and known.epoch == report.broker_epoch and report.sequence <= known.sequence:
            return None, Verdict.OVERTAKEN
        if known is not None and report.broker_epoch < known.epoch:
            return None, Verdict.OVERTAKEN
        is_next = known is not None and known.epoch == report.broker_epoch and report.sequence == known.sequence + 1
        if not report.is_full and not is_next:
            return None, Verdict.NEEDS_FULL
        if known is None or known.epoch != report.broker_epoch:
            known = self.standings[report.broker_id] = Standing(report.broker_id, report.broker_epoch)
            known.brokers = known.brokers_offered = 1
        elif report.answered == known.sequence:
            known.brokers = known.brokers_offered
        else:
            known.brokers = min(known.brokers, known.brokers_offered)
        known.sequence = report.sequence
        known.unanswered = report.sequence - report.answered
        known.until_ms = now_ms + self._after_ms(1)
        self._awaited.pop(report.broker_id, None)
        self.unknown.pop(report.broker_id, None)
        self.silent = [one for one in self.silent if one.broker_id != report.broker_id]
        if report.broker_id not in self.live:
            self.live |= {report.broker_id}
            self.version += 1
        return known, Verdict.GRANTED

    def uses_of_silent(self, limit: "HeldBy", now_ms: int, *, but: int | None = None) -> int:
        """Return the part of a rate that the brokers without a lease or an answer may use, except the broker `but`.

        A broker that has just begun to serve uses nothing, and reports in a moment. Each other one is counted with at
        least an equal part: it will use one in the end, because no controller seems to divide the rate. The part of a
        live broker beyond its share is included here.
        """
        equal, counted = limit.rate // self._registered, self._equal[1]
        used = equal * len(counted & self.unknown.keys())
        for one in self.silent:
            if one.broker_id != but:
                held = limit.holders.get(one.broker_id)
                used += max(equal, 0 if held is None else one.may_use(held, now_ms))
        for broker_id in counted:
            if broker_id in self.live and broker_id != but:
                held = limit.holders.get(broker_id)
                used += max(0, equal - (0 if held is None else held.share))
        return used

    def _count_with_equal_parts(self, now_ms: int) -> Iterator[int]:
        """Yield the ids of the brokers that count with an equal part: the controller does not know that it is heard."""
        counted_ms = now_ms - self._after_ms(1)
        yield from (one for one, since_ms in self.unknown.items() if since_ms <= counted_ms)
        yield from (one.broker_id for one in self.silent)
        yield from (one for one in self.live if self.standings[one].unanswered > _UNANSWERED_MAX)
