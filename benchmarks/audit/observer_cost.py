"""What observers cost: `.venv/bin/python -m benchmarks.audit.observer_cost`.

One broker; the same Produce and Fetch requests are sent while nobody observes and while somebody does, in turn. The
figure is the processor time of the broker's process for each request, all its threads counted: the median of many
short measurements in each round, and the least of all rounds, as neighbours on the machine can only add to it. A ratio
of 0.95 is a twentieth slower.

With `--before ../other` it is another checkout's broker that is compared with this one's, where nobody observes.
"""

import argparse
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.record_validation import processor_s, send
from benchmarks.wire import fetch_frame, produce_frame
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import set_default_config, until

NAMES = "observer.class.names"
PLUGIN = "tests.support.requests.plugin_observers.TopicSizes"
NOBODY = "nobody"
OBSERVERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    NOBODY: ("", {}),
    "one that wants other requests": (PLUGIN, {"observer.TopicSizes.filter.api.keys": "CreateTopics"}),
    "Python: topic and size of every produce": (PLUGIN, {"observer.TopicSizes.filter.api.keys": "Produce"}),
    "prometheus by API and topic": ("prometheus", {"observer.prometheus.labels": "api,topic"}),
    "json-log": ("json-log", {"observer.json-log.path": "{folder}/observed.json"}),
    "audit-log": ("audit-log", {}),
}
TOPIC = "observed"
CHUNKS, REQUESTS = 25, 80
"""Requests are sent in chunks. The median chunk counts, because other load on the machine disturbs some of them."""
SHAPES: Mapping[str, bytes] = {
    "produce, one message": produce_frame(TOPIC, 100, 1),
    "produce, 64 KB": produce_frame(TOPIC, 1_000, 65_536),
    "fetch, 64 KB": fetch_frame(TOPIC, 0, 65_536),
}
Figures = dict[str, dict[str, list[float]]]
"""Microseconds per request of each round, by shape and by observer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout, whose broker is measured beside this one's")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    figures: Figures = {shape: {} for shape in SHAPES}
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(properties={"sluicegate.observer.budget.us": "100000"}))
        brokers = {NOBODY: broker}
        if given.before is not None:
            brokers["before"] = stack.enter_context(BrokerProcess(checkout=given.before.resolve()))
        _measure(brokers, {shape: {} for shape in SHAPES})
        for _ in range(given.rounds):
            _measure(brokers, figures)
            for who in OBSERVERS.keys() - brokers.keys() if given.before is None else ():
                with _observing(broker, *OBSERVERS[who]):
                    _measure({who: broker}, figures)
    _print(figures)


@contextmanager
def _observing(broker: BrokerProcess, name: str, config: Mapping[str, str]) -> Iterator[None]:
    """Load the observer inside the block, and unload it afterwards."""
    for key, text in config.items():
        set_default_config(broker, key, text.format(folder=broker.folder))
    set_default_config(broker, NAMES, name)
    until(lambda: _loaded(broker) == 1, f"{name} is loaded")
    try:
        yield
    finally:
        set_default_config(broker, NAMES, None)
        until(lambda: _loaded(broker) == 0, f"{name} is gone")


def _loaded(broker: BrokerProcess) -> float:
    return sum(value for key, value in broker.metrics().items() if 'state="Loaded"' in key)


def _measure(brokers: Mapping[str, BrokerProcess], figures: Figures) -> None:
    """Measure all brokers in turn, chunk by chunk."""
    with ExitStack() as stack:
        clients = {
            who: stack.enter_context(socket.create_connection((one.host, one.port()))) for who, one in brokers.items()
        }
        for shape, frame in SHAPES.items():
            costs: dict[str, list[float]] = {who: [] for who in brokers}
            for number in range(CHUNKS):
                for who, client in list(clients.items())[:: -1 if number % 2 else 1]:
                    costs[who].append(_chunk(brokers[who].pid, client, frame))
            for who, found in costs.items():
                figures[shape].setdefault(who, []).append(median(found))


def _chunk(pid: int, client: socket.socket, frame: bytes) -> float:
    """Return the microseconds of a request."""
    before = processor_s(pid)
    for _ in range(REQUESTS):
        send(client, frame)
    return (processor_s(pid) - before) / REQUESTS * 1e6


def _print(figures: Figures) -> None:
    print("| request | observed by | us a request | more than nobody | ratio | median ratio of rounds |")
    print("|---|---|---|---|---|---|")
    for shape, by in figures.items():
        base = by[NOBODY]
        for who in sorted(by, key=["before", *OBSERVERS].index):
            ratio = median(alone / observed for alone, observed in zip(base, by[who], strict=True))
            least, more = min(by[who]), min(by[who]) - min(base)
            print(f"| {shape} | {who} | {least:.1f} | {more:+.1f} | {min(base) / least:.3f} x | {ratio:.3f} x |")


if __name__ == "__main__":
    main()
