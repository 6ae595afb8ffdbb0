"""Whether everything that the last run of a broker had written is still in its folder (KIP-966: a clean restart).

A run vouches for the broker epoch that it was registered with. Its word is taken by the next run when

- it stopped cleanly: everything was synced, and Kafka's clean-shutdown marker names the epoch; or
- it did not, but the machine has not begun anew since (the boot id beside the epoch is that of now): what a killed
  process has written is still in the page cache, or on disk.

With another boot, without the file, with a log that has failed or is shorter than it was known to be nobody vouches.
Then the controller must not count on this broker's records. Not noticed: a disk that takes neither fsync nor unlink any
more and works again without a boot, and one that is torn off without unmounting and put back to the same boot.
"""

import json
import logging
from pathlib import Path

from broker_runtime.storage.checkpoint import CLEAN_SHUTDOWN
from broker_runtime.storage.filesystem import FileSystem, read_file, replace_file

log = logging.getLogger(__name__)

FILE_NAME = ".sluicegate_run"
_LEDGER = b'"ledger":true'
UNKNOWN_EPOCH = -1
UNKNOWN_BOOT = ""


class RunRecord:
    """What a broker's folder tells of its last run, and what this run writes down for the next."""

    def __init__(self, fs: FileSystem, log_dir: Path, boot_id: str) -> None:
        """`boot_id` UNKNOWN_BOOT is not that of any run: then only a clean stop counts."""
        self.epoch = UNKNOWN_EPOCH
        """The broker epoch since whose registration nothing that was written is lost."""
        self.last_epoch = UNKNOWN_EPOCH
        """Of the last registration that is known of, vouched for or not."""
        self.page_cache_kept = False
        """What the last run has written is there, synced or not, as a crash of its process leaves it."""
        self.kept_ledger = False
        """The last run kept the ledger of partitions; an earlier version of this broker does not."""
        self._fs = fs
        self._path = log_dir / FILE_NAME
        self._marker = log_dir / CLEAN_SHUTDOWN
        self._boot_id = boot_id
        self._failed = False

    def begin(self) -> bool:
        """Take over from the last run, before its logs are touched; whether it stopped cleanly. Raises OSError."""
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
            # Synced, or another machine that had this disk before might read it again.
            self._fs.unlink(self._path)
            self._fs.fsync_dir(self._path.parent)
        if clean:
            self._fs.unlink(self._marker)
            self._fs.fsync_dir(self._marker.parent)
        return clean

    def recovered(self) -> None:
        """What a loss of power has left is cut and synced: from here on the page cache has all that is written."""
        if not self._failed and not self._fs.exists(self._path):
            try:
                self._write()
            except OSError as error:
                log.warning("after a crash the next start cannot tell that its page cache was kept: %s", error)

    def registered(self, epoch: int) -> None:
        """From here on this run vouches for its own epoch, unless a log of it has failed.

        Raises OSError: then it could give no word after a crash, and must acknowledge nothing.
        """
        if not self._failed:
            self.epoch = epoch
            self._write()

    def lost(self) -> None:
        """Records that were there before are not there any more."""
        self.epoch = UNKNOWN_EPOCH
        try:
            if self._fs.exists(self._path):
                self._fs.unlink(self._path)
        except OSError as error:
            log.critical("%s cannot be removed though records are lost: %s", self._path, error)

    def failed(self) -> None:
        """A log takes no records any more, and may have lost some: nothing counts before a restart has read it."""
        self._failed = True
        self.lost()

    def stopped_cleanly(self) -> None:
        """Everything is synced. Raises OSError."""
        content = json.dumps({"version": 0, "brokerEpoch": self.epoch}, separators=(",", ":"))
        replace_file(self._fs, self._marker, content.encode())

    def _write(self) -> None:
        told = {"version": 0, "brokerEpoch": self.epoch, "bootId": self._boot_id, "ledger": True}
        content = json.dumps(told, separators=(",", ":"))
        replace_file(self._fs, self._path, content.encode())

    def _read(self, path: Path) -> tuple[int, str]:
        """(broker epoch, boot id), unknown where the file does not say."""
        if not self._fs.exists(path):
            return UNKNOWN_EPOCH, UNKNOWN_BOOT
        try:
            found = json.loads(read_file(self._fs, path))
            if found["version"] != 0:
                raise ValueError(f"version {found['version']}")
            return int(found["brokerEpoch"]), str(found.get("bootId", UNKNOWN_BOOT))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            log.warning("%s is damaged and vouches for nothing: %r", path, error)
            return UNKNOWN_EPOCH, UNKNOWN_BOOT
