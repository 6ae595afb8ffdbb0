"""The process of one node: arguments, event loop, signals, exit codes.

A second SIGTERM or SIGINT cuts the controlled shutdown short. Exit codes: 0 after a stop by them, 1 if the node could
not start or continue, 2 for an invalid configuration.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from broker_runtime.clock import SystemClock
from broker_runtime.cluster.rack import RackUnknownError, with_rack
from broker_runtime.config import BrokerSettings, broker_settings, parse_properties
from broker_runtime.errors import ConfigError
from broker_runtime.node.node import Node, StartError
from broker_runtime.node.process.loop_watch import LoopWatch
from broker_runtime.node.process.open_files import raise_descriptor_limit, with_replicas_max

log = logging.getLogger("broker_runtime")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings(options.config, options.override)
    except ConfigError as error:
        print(f"configuration: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return uvloop.run(_serve(with_replicas_max(settings, raise_descriptor_limit())))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "broker_runtime", description="A Kafka-protocol broker and controller.", formatter_class=_help_formatter
    )
    parser.add_argument("--config", required=True, type=Path, help="server.properties")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="overrides the file")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    return parser


def _help_formatter(prog: str) -> argparse.HelpFormatter:
    """Return a formatter of fixed width: to read the terminal's, argparse imports shutil, which stays in memory."""
    return argparse.HelpFormatter(prog, width=100)


def read_settings(path: Path, overrides: Sequence[str]) -> BrokerSettings:
    """Read the settings of a node. Raises ConfigError naming the file, the key and the allowed values."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    properties = parse_properties(text, str(path))
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--override {override}: must be key=value")
        properties[key.strip()] = value.strip()
    return broker_settings(properties, str(path))


async def _serve(settings: BrokerSettings) -> int:
    stop = asyncio.Event()
    broker: Node | None = None

    def on_signal() -> None:
        if stop.is_set() and broker is not None:
            broker.stop_at_once()
        stop.set()

    loop = asyncio.get_running_loop()
    watch = LoopWatch(loop, SystemClock().monotonic)
    watch.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        settings = await with_rack(settings, stop)
        if stop.is_set():
            return 0
        broker = Node(settings, watch=watch)
        await broker.run_until(stop)
    except ConfigError as error:
        print(f"configuration: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except (StartError, RackUnknownError) as error:
        print(f"the node cannot continue: {error}", file=sys.stderr)  # noqa: T201
        return 1
    finally:
        watch.stop()
    return 0
