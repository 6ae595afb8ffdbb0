"""One script played on one node: the requests of each step, and the answers as plain values.

A sequence is a function that takes a `Play`. It must not check which implementation answers.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.processes.apache_kafka import ApacheKafka
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import CLIENT_ID, CLOSED, ConnectionEnded, Plain, WireClient, trimmed

Node = ApacheKafka | BrokerProcess
PATIENCE_S = 60.0
numbers = itertools.count(1)
"""Numbers of plays: two nodes that play the same sequence have the same number."""


@dataclass
class Play:
    """A play. `answers` maps each step's name to the answer; a name is used once."""

    node: Node
    number: int = field(default_factory=numbers.__next__)
    answers: dict[str, Plain] = field(default_factory=dict)
    marks: int = 0
    """Number of waits until the node knows all changes."""
    _client: WireClient | None = None

    def address(self, listener: str = "PLAINTEXT") -> tuple[str, int]:
        return self.node.host, self.node.port(listener)

    def open(self, listener: str = "PLAINTEXT", source: str = "127.0.0.1", client_id: str = CLIENT_ID) -> WireClient:
        return WireClient(self.address(listener), source=source, client_id=client_id)

    def ask(self, step: str, api: str, version: int, /, **fields: Plain) -> Plain:
        """Send a request, record the answer under `step` and return it; CLOSED if the connection ended instead."""
        return self.note(step, self.quietly(api, version, **fields))

    def quietly(self, api: str, version: int, /, **fields: Plain) -> Plain:
        """Send a request without recording: for preparation, or for an answer that is recorded in part."""
        if self._client is None:
            self._client = self.open()
        try:
            return self._client.ask(api, version, **fields)
        except ConnectionEnded:
            self.close()
            return CLOSED

    def ask_in_every_version(self, step: str, api: str, versions: range, /, **fields: Plain) -> None:
        """Send the request in every version, with the fields that the version has."""
        for version in versions:
            self.ask(f"{step}, version {version}", api, version, **trimmed(api, version, fields))

    def until(self, true: Callable[[], bool]) -> None:
        """Poll until the condition is true."""
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
