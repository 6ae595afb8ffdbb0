"""The audit log as an observer of the broker: created with its configuration, then notified of every event.

A new configuration creates a new log with a boot ID of its own: numbers stay without holes, and both logs are complete.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import Final

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.table import COUNTED_APIS
from broker_runtime.exposition import MetricFamily, counter, gauge
from broker_runtime.network.connection.connection_notices import ConnectionNotice
from broker_runtime.observers.audit_log.inventory import Inventory
from broker_runtime.observers.audit_log.limits_log import LimitsLog
from broker_runtime.observers.audit_log.log import AuditDependencies, AuditLog
from broker_runtime.observers.audit_log.settings import AuditSettings, read_settings, with_key_of_file
from broker_runtime.observers.audit_log.spool import SpoolIdentity
from broker_runtime.observers.surroundings import BrokerFacts
from broker_runtime.storage.disk.filesystem import OsFileSystem

_SPOOL_FOLDER: Final = "audit"
_WAITING_SPOOLS_MAX: Final = 5
"""More means no lander, or a slow one: it looks for spools every few seconds, and a spool lasts a minute at most."""

_BOOT_FILE: Final = re.compile("([0-9a-f]{12})[0-9a-f]{6}[-.]")
"""The time comes first in a boot ID."""


def new_boot_id(wall_ms: int, files: Iterable[str]) -> str:
    """Return a unique boot ID, greater as text than those of earlier boots, even if the clock was set back.

    `files` names the files of earlier boots; landers keep the last of them.
    """
    last = max((int(found[1], 16) for name in files if (found := _BOOT_FILE.match(name))), default=0)
    return f"{max(wall_ms, last + 1):012x}{os.urandom(3).hex()}"


class AuditLogObserver:
    """The audit log as an observer.

    docs/reference/audit-log.md describes what it writes, and how much of that survives which failure.
    """

    def __init__(self) -> None:
        self._log: AuditLog
        self._settings: AuditSettings
        self._given: BrokerFacts
        self._inventory: Inventory
        self._limits: LimitsLog

    def attach(self, surroundings: BrokerFacts) -> None:
        self._given = surroundings

    def configure(self, config: Mapping[str, str]) -> None:
        """Create the audit log with this configuration.

        Raises AuditConfigError; OSError if the spools cannot be written or the key cannot be read.
        """
        given = self._given
        self._settings = read_settings(with_key_of_file(config, lambda path: Path(path).read_text(encoding="utf-8")))
        fs = OsFileSystem()
        own = self._settings.spool_dir
        folder = Path(own) if own else Path(given.log_dir) / _SPOOL_FOLDER
        fs.mkdir(folder)
        boot_id = new_boot_id(given.clock.wall_ms(), fs.listdir(folder))
        self._log = AuditLog(
            self._settings,
            AuditDependencies(
                SpoolIdentity(given.cluster_id, given.node_id, boot_id),
                folder,
                {api.key: api.name for api in COUNTED_APIS},
                fs,
                given.clock,
                given.call_later,
                given.metadata(),
            ),
        )
        self._inventory = Inventory(
            self._log,
            given.partitions,
            given.registered_brokers,
            given.clock,
            given.call_later,
            self._settings.inventory_s,
            self._settings.writer.segment_s,
        )
        self._limits = LimitsLog(self._log, given.limits, given.call_later, self._settings.limits_s)
        given.call_soon(self._limits.begin)
        given.call_soon(self._inventory.look)

    def record_call(self, call: Call) -> None:
        self._log.record_call(call)

    def record_connection(self, notice: ConnectionNotice) -> None:
        self._log.record_connection(notice)

    @property
    def noted_apis(self) -> frozenset[int]:
        return self._log.noted_apis

    def note(self, call: Call, frame: memoryview, body_at: int) -> None:
        """Note the changes in a request, or its group, before the request is handled. Raises ProtocolError."""
        self._log.note(call, frame, body_at)

    @property
    def rejects(self) -> bool:
        return self._settings.rejects

    def refuses(self, call: Call) -> bool:
        """Return whether to refuse a request because its outcome must be recorded and cannot be."""
        return self._log.refuses(call)

    @property
    def remark(self) -> str:
        figures = self._log.figures
        remarks = []
        if figures.waiting_spools > _WAITING_SPOOLS_MAX:
            remarks.append(
                f"{figures.waiting_spools} spools wait to be landed: check the log of its lander, if one runs"
            )
        if figures.dropped:
            remarks.append(f"{figures.dropped} events were dropped; gap events record them")
        return "; ".join(remarks)

    def collect(self) -> Iterable[MetricFamily]:
        events, dropped, queued_bytes, waiting = self._log.figures
        return (
            counter("sluicegate_audit_events_total", "Events of the audit log, with those that it dropped", events),
            counter("sluicegate_audit_dropped_total", "Events that it dropped because its queue was full", dropped),
            gauge(
                "sluicegate_audit_queued_bytes", "Events that wait because the spool cannot be written", queued_bytes
            ),
            gauge("sluicegate_audit_waiting_spools", "Complete spools that are not landed yet", waiting),
        )

    def close(self, timeout_s: float) -> None:
        """Stop the audit log, and wait at most `timeout_s`.

        Events that are not written by then are reported as missing when the spool is landed.
        """
        done = Event()

        def finish() -> None:
            self._inventory.close()
            self._limits.close()
            self._log.close()
            done.set()

        self._given.call_soon(finish)
        done.wait(timeout_s)
