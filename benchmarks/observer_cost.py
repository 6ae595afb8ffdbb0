"""What observers cost: `.venv/bin/python -m benchmarks.observer_cost [--before ../other-checkout]`.

One broker; the same Produce and Fetch requests are sent while nobody observes and while somebody does, in turn. The
figure is the processor time of the broker's process for each request, all its threads counted, so other work on the
machine matters little. With `--before`, another checkout's broker stands beside it: what a request costs where nobody
observes. Ratios of times are turned round, so that 0.95 is a twentieth slower.
"""

import argparse
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.record_validation import processor_s, send
from benchmarks.wire import fetch_frame, produce_frame
from tests.support.broker_admin import set_default_config, until
from tests.support.broker_process import BrokerProcess

NAMES = "observer.class.names"
PLUGIN = "tests.support.plugin_observers.TopicSizes"
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
REQUESTS = 1_500
SHAPES: Mapping[str, bytes] = {
    "produce, one message": produce_frame(TOPIC, 100, 1),
    "produce, 64 KB": produce_frame(TOPIC, 1_000, 65_536),
    "fetch, 64 KB": fetch_frame(TOPIC, 0, 65_536),
}
Figures = dict[str, dict[str, list[float]]]
"""Microseconds a request: by shape, by who observes, of each round."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout, whose broker is measured beside this one's")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    properties = {"sluicegate.observer.budget.us": "100000"}
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(properties=properties))
        brokers = {NOBODY: broker}
        if given.before is not None:
            brokers["before"] = stack.enter_context(BrokerProcess(checkout=given.before.resolve()))
        figures: Figures = {shape: {} for shape in SHAPES}
        for who in brokers:
            _round({shape: {} for shape in SHAPES}, who, brokers[who])
        for number in range(given.rounds):
            others = [who for who in brokers if who != NOBODY]
            for who in (*others, NOBODY) if number % 2 else (NOBODY, *others):
                _round(figures, who, brokers[who])
            for who in OBSERVERS.keys() - {NOBODY}:
                with _observing(broker, *OBSERVERS[who]):
                    _round(figures, who, broker)
    _print(figures)


@contextmanager
def _observing(broker: BrokerProcess, name: str, config: Mapping[str, str]) -> Iterator[None]:
    """Has the observer loaded within, and gone behind it."""
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


def _round(figures: Figures, who: str, broker: BrokerProcess) -> None:
    for shape, cost_us in _costs(broker):
        figures[shape].setdefault(who, []).append(cost_us)


def _costs(broker: BrokerProcess) -> Iterator[tuple[str, float]]:
    with socket.create_connection(("127.0.0.1", broker.port())) as client:
        for shape, frame in SHAPES.items():
            send(client, frame)
            before = processor_s(broker.pid)
            for _ in range(REQUESTS):
                send(client, frame)
            yield shape, (processor_s(broker.pid) - before) / REQUESTS * 1e6


def _print(figures: Figures) -> None:
    print("| request | observed by | us a request | more than nobody | ratio | least and greatest |")
    print("|---|---|---|---|---|---|")
    for shape, by in figures.items():
        base = by[NOBODY]
        for who in sorted(by, key=["before", *OBSERVERS].index):
            ratios = [alone / observed for alone, observed in zip(base, by[who], strict=True)]
            print(_row(shape, who, by[who], base, ratios))


def _row(shape: str, who: str, costs: Sequence[float], base: Sequence[float], ratios: Sequence[float]) -> str:
    more = median(after - before for before, after in zip(base, costs, strict=True))
    return (
        f"| {shape} | {who} | {median(costs):.1f} | {more:+.1f} | {median(ratios):.3f} x"
        f" | {min(ratios):.3f} to {max(ratios):.3f} |"
    )


if __name__ == "__main__":
    main()
