"""Keep this broker's shares of rates of the cluster: report demands to the controller, apply the answers. Shell.

Imported when the broker has its first rate of the cluster (decision 45). `connection_limits.cluster` decides; decision
69 has the reasons.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from broker_runtime.clock import Clock
from broker_runtime.cluster.lifecycle import Phase
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.membership_status import MembershipStatus
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.quotas.limit_changes import LimitChanges
from broker_runtime.network.quotas.metrics import MAX_GROUP_SERIES, Sample
from broker_runtime.wire.messages import Entity
from connection_limits.cluster.reports import Answer, Grant, Report, Verdict
from connection_limits.cluster.shares import Shares
from connection_limits.cluster_rates import ClusterRates, ShownShare, Target
from connection_limits.cluster_rates import targets as cluster_targets
from connection_limits.quotas import ConnectionQuotas
from kafka_bytes.own_keys import CONNECTION_SHARES

log = logging.getLogger(__name__)

_VERSION = 0
_REPORTING = frozenset({Phase.RECOVERY, Phase.RUNNING, Phase.FENCED, Phase.STOPPING})
"""Phases in which the controller knows this broker's epoch. One that starts has its shares before its first client."""
_LONGEST_TICK_S, _SOON_S = 0.1, 0.02
_LEASE_MS_MAX = 60_000
"""The largest value of sluicegate.connection.shares.lease.ms."""


_PREFIX = "sluicegate_cluster_connection_rate"
_METRICS: tuple[tuple[str, str, Callable[[ShownShare], float]], ...] = (
    ("", "New connections per second that all brokers together may accept", lambda one: one.rate),
    (
        "_share",
        "New connections per second of a rate of the cluster that this broker may accept",
        lambda one: one.share,
    ),
    (
        "_demand",
        "New connections per second that clients attempt on this broker under a rate of the cluster",
        lambda one: one.demand,
    ),
    (
        "_answer_age_seconds",
        "Age of the last report about rates of the cluster that the controller has answered; -1 without one",
        lambda one: -1.0 if one.age_s is None else one.age_s,
    ),
)


class SharingAcceptor(Protocol):
    """The part of an acceptor whose clients wait for a share."""

    @property
    def waiting_total(self) -> int:
        """Number of clients that wait for the quotas."""
        ...

    def limits_changed(self) -> None: ...


class SharingServer(Protocol):
    """The part of SocketServer whose quotas have rates of the cluster."""

    @property
    def quotas(self) -> ConnectionQuotas: ...

    @property
    def limit_changes(self) -> LimitChanges: ...

    @property
    def acceptors(self) -> Mapping[str, SharingAcceptor]:
        """The acceptors by the names of their listeners."""
        ...


@dataclass(frozen=True, slots=True)
class Reporting:
    """Times of reports, in milliseconds: the least time between two, and the length of a lease before the first."""

    report_ms: int
    lease_ms: int


class ConnectionShares:
    """The shares of this broker in rates of the cluster, and its report in flight; nothing is durable.

    `run` measures and reports until it is cancelled. `client` has a connection of its own, so that no other request
    delays a report. After a failure it asks the controller that `leader` has found. `member` returns None while the
    broker starts.
    """

    def __init__(
        self,
        reporting: Reporting,
        clock: Clock,
        clients: tuple[ControllerClient, ControllerClient],
        member: Callable[[], MembershipStatus | None],
        image: MetadataImage,
        server: SharingServer,
    ) -> None:
        """Create the shares. `clients` are the one that reports, and one that follows the active controller."""
        self._clock = clock
        self._client, self._leader = clients
        self._member = member
        self._image = image
        self._server = server
        self._shares = Shares(reporting.report_ms, reporting.lease_ms, self._now_ms())
        self.rates = ClusterRates(server.quotas, self._shares, self._now_ms())
        self._tick_s = min(_LONGEST_TICK_S, reporting.report_ms / 2000)
        self._wake = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._is_failing = False
        self._answered_total = self._failed_total = 0

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def wake(self) -> None:
        """Work soon: a limit has changed, or an answer has come."""
        self._wake.set()

    async def run(self) -> None:
        """Measure and report while this broker has rates of the cluster; wait without a timer while it has none."""
        try:
            while True:
                self._wake.clear()
                self._step()
                if self.rates.is_needed:
                    await self._sleep(_SOON_S if self._shares.is_urgent else self._tick_s)
                else:
                    await self._wake.wait()
        finally:
            if self._asking is not None:
                self._asking.cancel()
                await asyncio.gather(self._asking, return_exceptions=True)

    async def _sleep(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _step(self) -> None:
        now_s, shares = self._clock.monotonic(), self._shares
        now_ms = int(now_s * 1000)
        shares.registered = max(1, len(self._image.brokers))
        shares.controller_epoch = max(shares.controller_epoch, self._image.cluster.controller_epoch)
        member = self._member()
        shares.note_serving(member is not None and member.serving, now_ms)
        waiting = {name: count for name, one in self._server.acceptors.items() if (count := one.waiting_total)}
        self._applied(self.rates.update(waiting, now_ms), now_s)
        if self._asking is not None and self._asking.done():
            finished, self._asking = self._asking, None
            finished.result()
        if member is None or member.phase not in _REPORTING or self._asking is not None or not shares.is_due(now_ms):
            return
        report = shares.begin_report(member.broker_id, member.epoch, now_ms)
        self._asking = asyncio.create_task(self._ask(report), name="report of connection rates")

    def collect(self) -> Iterator[Sample]:
        """Yield the samples of the rates of the cluster; none without such a rate."""
        reports = {"answered": self._answered_total, "failed": self._failed_total}
        return share_samples(self._server.quotas, self.rates, reports, self._now_ms())

    def _applied(self, changed: bool, now_s: float) -> None:
        """Report the shares that have moved, and fit the queues of waiting clients to them."""
        if moved := self.rates.take_moved():
            self._server.limit_changes.shares(moved, now_s)
        if changed:
            for acceptor in self._server.acceptors.values():
                acceptor.limits_changed()

    async def _ask(self, report: Report) -> None:
        """Send a report and apply the answer; a failure is retried after a pause that grows."""
        content = {
            "broker_id": report.broker_id,
            "broker_epoch": report.broker_epoch,
            "sequence": report.sequence,
            "answered": report.answered,
            "is_full": report.is_full,
            "limits": [
                {"name": one.name, "rate": one.rate, "share": one.share, "demand": one.demand} for one in report.limits
            ],
        }
        try:
            entity = await self._client.request(CONNECTION_SHARES, _VERSION, content)
            if entity.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(int(entity.error_code)))
            answer = _answer(entity)
        except KafkaError as error:
            self._failed_total += 1
            self._shares.failed(report)
            self._client.follow(self._leader)
            if not self._is_failing:
                self._is_failing = True
                log.warning(
                    "the controller does not answer reports about rates of the cluster; this broker uses its shares "
                    "until their lease ends, then a reserve; retrying: %s",
                    error,
                )
        else:
            self._answered_total += 1
            if self._is_failing:
                self._is_failing = False
                log.info("the controller answers reports about rates of the cluster again")
            now_s = self._clock.monotonic()
            self._shares.answered(report, answer, int(now_s * 1000))
            self._applied(self.rates.apply(int(now_s * 1000)), now_s)
        # The next report may be due at once, to give up a share for which other brokers wait.
        self.wake()


def share_samples(
    quotas: ConnectionQuotas, rates: ClusterRates, reports: Mapping[str, int], now_ms: int
) -> Iterator[Sample]:
    """Yield the samples of the rates of the cluster of `quotas`; `reports` has the number of reports by outcome."""
    targets = list(islice(cluster_targets(quotas), MAX_GROUP_SERIES))
    shown = [(_label(one), rates.shown(one.name, now_ms)) for one in targets]
    for name, text, value in _METRICS:
        for label, share in shown:
            if share is not None:
                yield Sample(_PREFIX + name, value(share), "gauge", text, {"target": label})
    if shown:
        text = "Reports to the controller about rates of the cluster, by outcome"
        for outcome, total in reports.items():
            yield Sample(_PREFIX + "_reports_total", total, "counter", text, {"outcome": outcome})


def _label(target: Target) -> str:
    """Return the label of a limit in metrics."""
    if target.group is not None:
        return f"connection-group {target.group}"
    return "broker" if target.listener is None else f"listener {target.listener}"


def _answer(entity: Entity) -> Answer:
    """Return the controller's answer. Raise KafkaError if no controller could mean it: then it counts as no answer."""
    grants = tuple(Grant(one.name, one.rate, one.share) for one in entity.shares)
    is_refusal = entity.verdict in (Verdict.NEEDS_FULL, Verdict.OVERTAKEN)
    is_grant = (
        entity.verdict == Verdict.GRANTED
        and 0 < entity.lease_ms <= _LEASE_MS_MAX
        and entity.brokers > 0
        and all(0 <= one.share <= one.rate for one in grants)
    )
    if not (is_refusal or is_grant):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the controller's answer has numbers out of range, or an unknown verdict"
        )
    return Answer(
        Verdict(entity.verdict), entity.controller_epoch, entity.lease_ms, entity.brokers, entity.more_soon, grants
    )
