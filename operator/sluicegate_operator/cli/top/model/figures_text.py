"""Reads the figures of the console from a broker's metrics, in Prometheus' text format. Pure.

A scrape has hundreds of lines, and the console needs a few of them: all other lines are skipped by their names.
"""

import re
from collections.abc import Iterator

from sluicegate_operator.cli.top.model.look import BrokerFigures, ClientFigures

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")

LOOP_DELAY = "sluicegate_event_loop_delay_max_seconds"
CPU, MEMORY = "process_cpu_seconds_total", "process_resident_memory_bytes"
REQUESTS = "kafka_network_request_total"
WAITING = "kafka_network_acceptor_connections_waiting"
UNDER_MIN_ISR = "kafka_server_replica_manager_under_min_isr_partition_count"
LAG = "kafka_consumergroup_lag_sum"
PRODUCED, FETCHED = "kafka_server_produce_byte_rate", "kafka_server_fetch_byte_rate"
THROTTLED = ("kafka_server_produce_throttle_time_seconds_total", "kafka_server_fetch_throttle_time_seconds_total")
_WANTED = frozenset({LOOP_DELAY, CPU, MEMORY, REQUESTS, WAITING, UNDER_MIN_ISR, LAG, PRODUCED, FETCHED, *THROTTLED})

Labels = dict[str, str]


def parse_figures(text: str) -> BrokerFigures:
    """Return the figures in a broker's metrics. Metrics that the broker's release does not have are left out."""
    values: dict[str, list[float]] = {}
    lags: dict[str, dict[str, int]] = {}
    clients: dict[tuple[str, str], dict[str, float]] = {}
    for name, labels, value in _samples(text):
        if name == LAG:
            lags.setdefault(labels.get("consumergroup", ""), {})[labels.get("topic", "")] = int(value)
        elif "client_id" in labels:
            of_client = clients.setdefault((labels.get("user", ""), labels["client_id"]), {})
            of_client[name] = of_client.get(name, 0.0) + value
        else:
            values.setdefault(name, []).append(value)
    return BrokerFigures(
        loop_delay_s=_only(values, LOOP_DELAY),
        cpu_s=_only(values, CPU),
        memory=_only(values, MEMORY),
        requests=_only(values, REQUESTS),
        waiting=int(sum(values.get(WAITING, ()))),
        under_min_isr=int(sum(values.get(UNDER_MIN_ISR, ()))),
        lags=lags,
        clients=tuple(
            ClientFigures(
                *who, found.get(PRODUCED, 0.0), found.get(FETCHED, 0.0), sum(found.get(name, 0.0) for name in THROTTLED)
            )
            for who, found in clients.items()
        ),
    )


def _only(values: dict[str, list[float]], name: str) -> float | None:
    found = values.get(name)
    return None if found is None else sum(found)


def _samples(text: str) -> Iterator[tuple[str, Labels, float]]:
    """Yield name, labels and value of the wanted lines. Lines that are no samples are skipped."""
    for line in text.splitlines():
        name = line.partition(" ")[0].partition("{")[0]
        if name not in _WANTED:
            continue
        labels, separator, number = line[len(name) :].rpartition("} ")
        try:
            value = float(number if separator else labels + number)
        except ValueError:
            continue
        yield name, {key: _ESCAPE.sub(_unescaped, found) for key, found in _LABEL.findall(labels)}, value


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
