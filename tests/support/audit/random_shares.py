"""A controller that gives a bench of acceptors random shares of rates of the cluster, and is silent for a while."""

from random import Random

from connection_limits.cluster.reports import Answer, Grant, Report, Verdict
from connection_limits.cluster.shares import Shares
from connection_limits.cluster_rates import ClusterRates
from tests.support.audit.acceptors import AcceptorBench

_TICK_S = 0.1
_LEASE_MS = 1_000


class RandomShares:
    """The shares of one broker, which reports as `ConnectionShares` does, and random answers."""

    def __init__(self, random: Random, bench: AcceptorBench, span_s: float) -> None:
        self._random = random
        self._bench = bench
        self._brokers = random.randint(1, 5)
        self._shares = Shares(200, _LEASE_MS, bench.began_ms)
        self._rates = ClusterRates(bench.quotas, self._shares, bench.began_ms)
        self._silent_s = bench.loop.now_s + random.random() * span_s
        """Time from which on the controller is silent for a few leases."""
        self._serves = True
        if random.random() < 0.3:
            bench.loop.call_later(random.random() * span_s, self._stop_serving)
        self._step()

    def _stop_serving(self) -> None:
        self._serves = False
        self._bench.loop.call_later(1.0, self._serve_again)

    def _serve_again(self) -> None:
        self._serves = True

    def _step(self) -> None:
        bench, shares = self._bench, self._shares
        now_s = bench.loop.now()
        now_ms = int(now_s * 1000)
        shares.note_serving(self._serves, now_ms)
        changed = self._rates.update(bench.queued, now_ms)
        bench.apply_shares(self._rates.take_moved(), now_s, changed=changed)
        if shares.is_due(now_ms):
            report = shares.begin_report(7, 1, now_ms)
            bench.loop.call_later(self._random.random() * 0.05, lambda: self._answer(report))
        bench.loop.call_later(_TICK_S, self._step)

    def _answer(self, report: Report) -> None:
        shares, random = self._shares, self._random
        now_s = self._bench.loop.now()
        if self._silent_s < now_s < self._silent_s + 4:
            shares.failed(report)
            return
        grants = [
            Grant(one.name, one.rate, random.randint(0, one.rate))
            for one in report.limits
            if one.rate and random.random() < 0.7
        ]
        answer = Answer(Verdict.GRANTED, 1, _LEASE_MS, self._brokers, random.random() < 0.5, grants)
        shares.answered(report, answer, int(now_s * 1000))
        changed = self._rates.apply(int(now_s * 1000))
        self._bench.apply_shares(self._rates.take_moved(), now_s, changed=changed)
