"""The release whose code a simulated process runs."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from broker_runtime.clock import Clock
from broker_runtime.config import broker_settings
from broker_runtime.errors import ConfigError, KafkaError
from broker_runtime.node.node import Node, StartError
from broker_runtime.node.node_parts import NodeParts

Created = tuple[Callable[[asyncio.Event], Coroutine[Any, Any, None]], NodeParts]
"""The function that runs a node until the event is set, and the parts of the node."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the broker.

    - `create` makes a node of properties and a clock.
    - `start_error` is the error of a node that refuses to start.
    - `disk_errors` may end a node after its disk has failed.
    """

    name: str
    create: Callable[[Mapping[str, str], Clock], Created]
    start_error: type[Exception]
    disk_errors: tuple[type[Exception], ...]


def _create(properties: Mapping[str, str], clock: Clock) -> Created:
    node = Node(broker_settings(properties), clock)
    return node.run_until, node.parts


THIS = Release("this release", _create, StartError, (OSError, ConfigError, KafkaError))
