"""Observers as a user would write them, good ones and bad ones; brokers in tests load them by their names."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker_runtime.network.connection.connection_notices import ConnectionNotice
from broker_runtime.observers import Background, Struct


class Noting:
    """Notes what it sees in a file, a JSON list a line."""

    def configure(self, config: Mapping[str, str]) -> None:
        self._path = Path(config["path"])
        self._word = config.get("word", "")
        self._note("configured")

    def _note(self, *what: object) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*what, self._word]) + "\n")

    def record_request(
        self, struct: Struct, client_address: str, principal: str, api_key: int, api_version: int, correlation_id: str
    ) -> None:
        del api_version
        if api_key == 0:
            for topic in struct.get_array("topic_data"):
                for partition in topic.partition_data:
                    records = partition.records
                    self._note("produce", client_address, principal, topic.name, records.size, records.count)
        self._note("request", struct.context.api_name, struct.context.client_id, correlation_id)

    def record_response(self, struct: Struct, api_version: int, correlation_id: str) -> None:
        del api_version
        self._note("response", struct.context.api_name, struct.context.error_code, correlation_id)

    def close(self, timeout_s: float) -> None:
        self._note("closed", timeout_s)


class Connections(Noting):
    """Notes connections only."""

    record_request = record_response = None  # type: ignore[assignment]

    def record_connection(self, notice: ConnectionNotice) -> None:
        self._note(notice.kind, notice.listener, notice.reason)


class Silent:
    """Does nothing; the others of this module do one thing badly."""

    def configure(self, config: Mapping[str, str]) -> None: ...

    def record_request(self, *_: Any) -> None: ...

    def record_response(self, *_: Any) -> None: ...

    def close(self, timeout_s: float) -> None: ...


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


class TopicSizes(Silent):
    """The most common use: the bytes that go to each topic."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}

    def record_request(self, struct: Struct, *_: Any) -> None:
        for topic in struct.get_array("topic_data"):
            size = sum(partition.records.size for partition in topic.partition_data)
            self._bytes[topic.name] = self._bytes.get(topic.name, 0) + size


class Raising(Silent):
    """An observer that raises RuntimeError for each request."""

    def record_request(self, *_: Any) -> None:
        raise RuntimeError("I cannot stand requests")


class Exiting(Silent):
    """An observer that raises SystemExit for each response."""

    def record_response(self, *_: Any) -> None:
        raise SystemExit(3)


class Sleeping(Silent):
    """Sleeps 0.2 s in each request."""

    def record_request(self, *_: Any) -> None:
        _sleep(0.2)


class Standing(Silent):
    """An observer that blocks on its first call for a Metadata request for the configured time."""

    def configure(self, config: Mapping[str, str]) -> None:
        self._left_s = float(config["seconds"])

    def record_request(self, struct: Any, client_address: str, principal: str, api_key: int, *_: Any) -> None:
        if api_key == 3:
            left_s, self._left_s = self._left_s, 0.0
            _sleep(left_s)


class Flooding(Silent):
    """An observer whose worker never ends, while its queue grows."""

    def configure(self, config: Mapping[str, str]) -> None:
        self._queue: Background[bytes] = Background(lambda _: _sleep(3600), int(config["queue.max"]), "flooding")

    @property
    def dropped(self) -> int:
        return self._queue.dropped

    def record_request(self, *_: Any) -> None:
        for size in [1_000] * 100:
            self._queue.put(bytes(size))

    def close(self, timeout_s: float) -> None:
        self._queue.close(timeout_s)


class NeverClosing(Silent):
    """Blocks for an hour when it is closed."""

    def close(self, timeout_s: float) -> None:
        _sleep(3600)


class NeverConfigured(Silent):
    """Blocks for an hour when it is configured."""

    def configure(self, config: Mapping[str, str]) -> None:
        _sleep(3600)


class SlowlyConfigured(Silent):
    """Takes 2 s to be configured."""

    def configure(self, config: Mapping[str, str]) -> None:
        _sleep(2)


class Refusing(Silent):
    """An observer that refuses its configuration with ValueError."""

    def configure(self, config: Mapping[str, str]) -> None:
        raise ValueError(f"the word must be please, and is {config.get('word')}")


class Accounting(Silent):
    """Also accepts complete calls, and ignores them."""

    def record_call(self, call: Any) -> None: ...


class Nothing:
    """A class that is not an observer."""


class Spoiling(Silent):
    """Keeps what it must not keep, and writes where it must not write."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def record_request(self, struct: Struct, *_: Any) -> None:
        if self._kept:
            self._kept.pop().fields  # noqa: B018
            self._kept.pop().context  # noqa: B018
        self._kept = [struct, struct]
        struct.topic_data = ()
