"""The figures in a broker's metrics."""

from broker_runtime.exposition import MetricFamily, counter, gauge, render
from sluicegate_operator.cli.top.model import figures_text
from sluicegate_operator.cli.top.model.figures_text import parse_figures
from sluicegate_operator.cli.top.model.look import BrokerFigures, ClientFigures


def test_the_console_reads_the_metrics_that_brokers_write() -> None:
    lag = MetricFamily(figures_text.LAG, "gauge", "help")
    lag.add(7, consumergroup='od"d\\ {name}', topic="orders")
    lag.add(5, consumergroup='od"d\\ {name}', topic="payments")
    produced = MetricFamily(figures_text.PRODUCED, "gauge", "help")
    produced.add(1200.5, user="alice", client_id="loader")
    throttled = MetricFamily(figures_text.THROTTLED[0], "counter", "help")
    throttled.add(2.5, user="alice", client_id="loader")
    waiting = MetricFamily(figures_text.WAITING, "gauge", "help")
    waiting.add(3, listener="EXTERNAL")
    waiting.add(4, listener="OTHER")
    requests = MetricFamily(figures_text.REQUESTS, "counter", "help")
    requests.add(100, request="Fetch")
    requests.add(11, request="Produce")
    families = [
        lag,
        produced,
        throttled,
        waiting,
        requests,
        gauge(figures_text.LOOP_DELAY, "help", 0.25),
        counter(figures_text.CPU, "help", 12.5),
        gauge(figures_text.MEMORY, "help", 5e7),
        gauge("another_metric", "help", 1),
    ]

    found = parse_figures(render(families).decode())

    assert found == BrokerFigures(
        loop_delay_s=0.25,
        cpu_s=12.5,
        memory=5e7,
        requests=111,
        waiting=7,
        lags={'od"d\\ {name}': {"orders": 7, "payments": 5}},
        clients=(ClientFigures("alice", "loader", 1200.5, 0.0, 2.5),),
    )


def test_metrics_of_another_program_have_no_figures() -> None:
    text = f"# HELP {figures_text.CPU} x\n{figures_text.CPU} many\nup 1\n{figures_text.WAITING}{{}}\n\n"
    assert parse_figures(text) == BrokerFigures()
