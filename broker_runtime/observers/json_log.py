"""The built-in observer `json-log`: a line of JSON for each request and each connection event.

A thread writes the lines; it drops and counts lines that it cannot write, or not in time. To rotate the file, move it
away: the next line goes into a new one.
"""

import os
import sys
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from io import FileIO
from typing import Any

import msgspec

from broker_runtime.errors import ConfigError
from broker_runtime.network.connection.connection_notices import ConnectionNotice
from broker_runtime.observers.background import Background
from broker_runtime.observers.base import Config, NoResponse
from broker_runtime.observers.settings import read_settings
from broker_runtime.observers.surroundings import BrokerFacts
from broker_runtime.observers.view import Struct

_KEYS = {"path": "", "queue.max": "10000", "include.bodies": "false", "connections": "true"}


class JsonLog:
    """An observer that writes a line of JSON for each message, in a thread, to the file `path`.

    Without a path, lines go to standard output.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """Requests without a response so far: the first part of their lines by correlation ID."""
        self._file: FileIO | None = None
        self._broker: dict[str, int] = {}

    def attach(self, surroundings: BrokerFacts) -> None:
        self._broker = {"broker": surroundings.node_id}

    def configure(self, config: Config) -> None:
        given = read_settings(config, _KEYS)
        self._path = given.text("path")
        self._limit = given.whole("queue.max", 1)
        self._with_bodies = given.flag("include.bodies")
        self._with_connections = given.flag("connections")
        if self._path:
            self._file = self._opened()
        self._lines: Background[dict[str, Any]] = Background(self._write, self._limit, "json-log")

    @property
    def dropped(self) -> int:
        return self._lines.dropped

    def record_request(
        self,
        struct: Struct,
        client_address: str,
        principal: str,
        api_key: int,
        api_version: int,
        correlation_id: str,
    ) -> None:
        context = struct.context
        software = context.client_software
        line: dict[str, Any] = {
            "time": datetime.now(UTC),
            "event": "request",
            "api": context.api_name,
            "version": api_version,
            "id": correlation_id,
            "listener": context.listener,
            "client_address": client_address,
            "principal": principal,
            "client_id": context.client_id,
            "client_software": None if software is None else f"{software.name} {software.version}",
            "request_bytes": context.request_bytes,
        }
        if self._with_bodies:
            line["request"] = struct.to_dict()
        self._open[correlation_id] = line
        if len(self._open) > self._limit:
            self._lines.put(self._open.popitem(last=False)[1] | {"outcome": "unknown"})

    def record_response(self, struct: Struct, api_version: int, correlation_id: str) -> None:
        del api_version
        line = self._open.pop(correlation_id, None)
        if line is None:
            return
        context = struct.context
        line["outcome"] = "answered"
        line["error_code"] = context.error_code
        line["response_bytes"] = context.response_bytes
        line["duration_ms"] = round(context.duration_s * 1000, 3)
        if self._with_bodies:
            line["response"] = struct.to_dict()
        self._lines.put(line)

    def record_no_response(self, why: NoResponse, api_version: int, correlation_id: str) -> None:
        del api_version
        line = self._open.pop(correlation_id, None)
        if line is not None:
            self._lines.put(line | {"outcome": why.value})

    def record_connection(self, notice: ConnectionNotice) -> None:
        if self._with_connections:
            line = {name: value for name, value in notice._asdict().items() if value is not None}
            kind = line.pop("kind")
            self._lines.put({"time": datetime.now(UTC), "event": f"connection {kind}", **line})

    def close(self, timeout_s: float) -> None:
        self._lines.close(timeout_s)
        if self._file is not None:
            self._file.close()

    def _opened(self) -> FileIO:
        try:
            return FileIO(self._path, "a")
        except OSError as error:
            raise ConfigError(f"path: {self._path} cannot be written: {error.strerror}") from error

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        """Write lines, in the thread."""
        data = b"".join(msgspec.json.encode({**line, **self._broker}) + b"\n" for line in lines)
        if self._file is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        if self._was_moved(self._file):
            self._file.close()
            self._file = self._opened()
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def _was_moved(self, file: FileIO) -> bool:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(file.fileno()))
