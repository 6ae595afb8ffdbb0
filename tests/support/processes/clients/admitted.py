"""Connections that several brokers have admitted together, sampled over time from their metrics."""

import threading
import time
from collections.abc import Sequence
from typing import Self

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until


class Admitted:
    """Reads the numbers of admitted connections of all brokers again and again, in a thread."""

    def __init__(self, brokers: Sequence[BrokerProcess], listener: str) -> None:
        self._brokers = brokers
        self._metric = f'kafka_server_socket_server_connection_creation_total{{listener="{listener}"}}'
        self._totals: dict[int, float] = {}
        self._before: dict[int, float] = {}
        """Connections that processes of a broker admitted which have ended since, by broker."""
        self.samples: list[tuple[float, float]] = []
        """(time, admitted connections of all brokers)."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: bool(self.samples), "the first sample")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            for broker in self._brokers:
                if broker.is_running:
                    status, text = broker.get("/metrics")
                    if status == 200:
                        line = next(line for line in text.splitlines() if line.startswith(self._metric))
                        self._count(broker.node_id, float(line.rpartition(" ")[2]))
            self.samples.append((time.monotonic(), sum(self._totals.values()) + sum(self._before.values())))

    def _count(self, broker: int, total: float) -> None:
        """Note the total of a broker's process. A total that is lower than before is that of a new process."""
        last = self._totals.get(broker, 0.0)
        if total < last:
            self._before[broker] = self._before.get(broker, 0.0) + last
        self._totals[broker] = total

    def wait(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        until(lambda: self.samples[-1][0] >= end_s, "samples", seconds + 30)

    def per_s(self, begin_s: float, end_s: float) -> float:
        """Return the admitted connections a second between two times."""
        within = [(at_s, total) for at_s, total in self.samples if begin_s <= at_s <= end_s]
        return (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0])

    def reach(self, per_s: float, seconds: float = 5) -> None:
        """Wait until so many connections a second were admitted during a time of this length.

        Other processes may use the processors now and then.
        """
        begin_s = self.samples[-1][0]
        self.wait(seconds)
        until(
            lambda: self.per_s(max(begin_s, self.samples[-1][0] - seconds), self.samples[-1][0]) >= per_s,
            f"{per_s:g} connections a second",
        )

    def most_per_s(self, seconds: float) -> float:
        """Return the most admitted connections a second over any time of about this length."""
        most = 0.0
        for index, (begin_s, before) in enumerate(self.samples):
            later = [(at_s, total) for at_s, total in self.samples[index:] if at_s - begin_s >= seconds]
            if later:
                most = max(most, (later[0][1] - before) / (later[0][0] - begin_s))
        return most
