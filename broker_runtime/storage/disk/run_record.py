"""Whether everything that a broker's last run had written is still in its folder (KIP-966: a clean restart).

A run vouches for the broker epoch that it was registered with. The next run trusts that in two cases:

- The last run stopped cleanly: everything was synced, and Kafka's clean-shutdown marker has the epoch.
- It did not, but the machine has not rebooted since: the boot id stored with the epoch is the current one. What a
  killed process has written is still in the page cache, or on disk.

Nothing is vouched for after another boot, without the file, or if a log has failed or is shorter than it was known to
be. Then the controller must not count on this broker's records. Two cases are not detected. One is a disk that accepts
neither fsync nor unlink any more, and works again without a boot. The other is a disk that is detached without
unmounting and attached again during the same boot.
"""

import json
import logging
from pathlib import Path

from broker_runtime.storage.disk.checkpoint import CLEAN_SHUTDOWN
from broker_runtime.storage.disk.filesystem import FileSystem, read_file, replace_file

log = logging.getLogger(__name__)

FILE_NAME = ".sluicegate_run"
_LEDGER = b'"ledger":true'
UNKNOWN_EPOCH = -1
UNKNOWN_BOOT = ""


class RunRecord:
    """The file that says how a broker's last run ended, and whether this run vouches for its data."""

    def __init__(self, fs: FileSystem, log_dir: Path, boot_id: str) -> None:
        """Read the record of the last run.

        If `boot_id` is UNKNOWN_BOOT, it matches no run, and only a clean stop counts.
        """
        self.epoch = UNKNOWN_EPOCH
        """The broker epoch since whose registration nothing that was written is lost."""
        self.last_epoch = UNKNOWN_EPOCH
        """Broker epoch of the last known registration, vouched for or not."""
        self.page_cache_kept = False
        """Everything that the last run has written still exists, synced or not, as after a crash of its process."""
        self.kept_ledger = False
        """The last run kept the ledger of partitions; an earlier version of this broker does not."""
        self._fs = fs
        self._path = log_dir / FILE_NAME
        self._marker = log_dir / CLEAN_SHUTDOWN
        self._boot_id = boot_id
        self._failed = False

    def begin(self) -> bool:
        """Replace the record of the last run before its logs are touched. Return whether the last run stopped cleanly.

        Raises OSError.
        """
        clean = self._fs.exists(self._marker)
        written = self._read(self._path)
        self.page_cache_kept = written[1] == self._boot_id != UNKNOWN_BOOT
        self.last_epoch = written[0]
        self.kept_ledger = self._fs.exists(self._path) and _LEDGER in read_file(self._fs, self._path)
        if clean:
            self.epoch, _ = self._read(self._marker)
            self.last_epoch = max(self.epoch, self.last_epoch)
        elif self.page_cache_kept:
            self.epoch = written[0]
        if self.epoch != UNKNOWN_EPOCH:
            if written != (self.epoch, self._boot_id):
                self._write()
        elif self._fs.exists(self._path):
            # Synced, because another machine that had this disk before might read it again.
            self._fs.unlink(self._path)
            self._fs.fsync_dir(self._path.parent)
        if clean:
            self._fs.unlink(self._marker)
            self._fs.fsync_dir(self._marker.parent)
        return clean

    def recovered(self) -> None:
        """Record that the effects of a power loss are cut and synced.

        From now on the page cache has every write.
        """
        if not self._failed and not self._fs.exists(self._path):
            try:
                self._write()
            except OSError as error:
                log.warning(
                    "the record of this run could not be written: after a crash, the next start assumes that the "
                    "page cache was lost: %s",
                    error,
                )

    def registered(self, epoch: int) -> None:
        """Vouch for this run's own epoch from now on, unless one of its logs has failed.

        Raises OSError. Then the run must acknowledge nothing, because it could not vouch for anything after a crash.
        """
        if not self._failed:
            self.epoch = epoch
            self._write()

    def lost(self) -> None:
        """Stop vouching, because records that existed before are lost."""
        self.epoch = UNKNOWN_EPOCH
        try:
            if self._fs.exists(self._path):
                self._fs.unlink(self._path)
        except OSError as error:
            log.critical("%s cannot be removed, although records were lost: %s", self._path, error)

    def failed(self) -> None:
        """Stop vouching until a restart: a log is offline.

        Only a restart can determine whether the log has lost records.
        """
        self._failed = True
        self.lost()

    def stopped_cleanly(self) -> None:
        """Record in the log directory that this process has stopped cleanly.

        The caller must have synced all logs before. Raises OSError.
        """
        content = json.dumps({"version": 0, "brokerEpoch": self.epoch}, separators=(",", ":"))
        replace_file(self._fs, self._marker, content.encode())

    def _write(self) -> None:
        told = {"version": 0, "brokerEpoch": self.epoch, "bootId": self._boot_id, "ledger": True}
        content = json.dumps(told, separators=(",", ":"))
        replace_file(self._fs, self._path, content.encode())

    def _read(self, path: Path) -> tuple[int, str]:
        """(broker epoch, boot id); unknown values if the file does not have them."""
        if not self._fs.exists(path):
            return UNKNOWN_EPOCH, UNKNOWN_BOOT
        try:
            found = json.loads(read_file(self._fs, path))
            if found["version"] != 0:
                raise ValueError(f"version {found['version']}")
            return int(found["brokerEpoch"]), str(found.get("bootId", UNKNOWN_BOOT))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            log.warning("%s is damaged, so this start assumes that records may be lost: %r", path, error)
            return UNKNOWN_EPOCH, UNKNOWN_BOOT
