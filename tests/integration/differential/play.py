"""One script played on one node: what is asked, step by step, and what was answered, as plain values.

A sequence is a function that takes a `Play`. It must not look at which implementation answers.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import CLOSED, ConnectionEnded, Plain, WireClient, trimmed

Node = ApacheKafka | BrokerProcess
PATIENCE_S = 60.0
numbers = itertools.count(1)
"""Of plays: two nodes that play the same have the same."""


@dataclass
class Play:
    """`answers` maps each step's name to what came back; a name is used once."""

    node: Node
    number: int = field(default_factory=numbers.__next__)
    answers: dict[str, Plain] = field(default_factory=dict)
    marks: int = 0
    """How often it was waited until the node knows of all changes."""
    _client: WireClient | None = None

    def address(self, listener: str = "PLAINTEXT") -> tuple[str, int]:
        return self.node.host, self.node.port(listener)

    def open(self, listener: str = "PLAINTEXT", source: str = "127.0.0.1") -> WireClient:
        return WireClient(self.address(listener), source=source)

    def ask(self, step: str, api: str, version: int, /, **fields: Plain) -> Plain:
        """Asks, notes the answer under `step` and returns it; CLOSED when the connection ended instead."""
        return self.note(step, self.quietly(api, version, **fields))

    def quietly(self, api: str, version: int, /, **fields: Plain) -> Plain:
        """Asks without noting: preparation, or an answer that is noted in part."""
        if self._client is None:
            self._client = self.open()
        try:
            return self._client.ask(api, version, **fields)
        except ConnectionEnded:
            self.close()
            return CLOSED

    def ask_in_every_version(self, step: str, api: str, versions: range, /, **fields: Plain) -> None:
        """With what each version has of these fields."""
        for version in versions:
            self.ask(f"{step}, version {version}", api, version, **trimmed(api, version, fields))

    def until(self, true: Callable[[], bool]) -> None:
        """Looks until it is."""
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, "what was waited for did not come true"

    def note(self, step: str, value: Plain) -> Plain:
        assert step not in self.answers, f"the step {step!r} is played twice"
        self.answers[step] = value
        return value

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


Sequence = Callable[[Play], None]


def play(sequence: Sequence, node: Node, number: int) -> dict[str, Plain]:
    on = Play(node, number)
    try:
        sequence(on)
    finally:
        on.close()
    return on.answers
