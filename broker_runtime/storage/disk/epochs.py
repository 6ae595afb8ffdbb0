"""Which leader epoch wrote which part of a log: the cache of KIP-101 and its file, Kafka's leader-epoch-checkpoint.

Pure. An epoch's entry is the offset of its first record; the epoch ends where the next one begins. Only epochs that
wrote records are known.
"""

from collections.abc import Iterable

EPOCHS_FILE = "leader-epoch-checkpoint"
UNKNOWN = -1


class LeaderEpochs:
    """The leader epochs of a log and their start offsets, both ascending. The owner writes the file."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries: list[tuple[int, int]] = []
        self.latest = UNKNOWN
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`, unless the epoch has begun already.

        Return whether anything changed.
        """
        if epoch <= self.latest:
            return False
        self._entries.append((epoch, start_offset))
        self.latest = epoch
        return True

    def at(self, offset: int) -> int:
        """Return the epoch that wrote the record at `offset`; UNKNOWN before the first known epoch."""
        found = UNKNOWN
        for epoch, start in self._entries:
            if start > offset:
                break
            found = epoch
        return found

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest known epoch up to `epoch`, and the offset where that epoch ends; (-1, -1) for no epoch.

        An epoch older than all known ones ends where the first of them begins, as in Kafka. An epoch newer than all
        known ones has left nothing here: Kafka's leaders note their own epoch before they write, so they answer the
        same.
        """
        if epoch < 0:
            return UNKNOWN, UNKNOWN
        if epoch > self.latest >= 0:
            return self.latest, log_end_offset
        found, end = epoch, log_end_offset
        for known, start in self._entries:
            if known > epoch:
                end = start
                break
            found = known
        return found, end

    def truncate_end(self, end_offset: int) -> bool:
        kept = [entry for entry in self._entries if entry[1] < end_offset]
        changed = len(kept) != len(self._entries)
        self._entries = kept
        self.latest = kept[-1][0] if kept else UNKNOWN
        return changed

    def truncate_start(self, start_offset: int) -> bool:
        """Drop epochs that end at or below the log's start; let the epoch at the start begin there.

        Returns whether anything changed.
        """
        before = [entry for entry in self._entries if entry[1] <= start_offset]
        if not before or before == [(before[-1][0], start_offset)]:
            return False
        self._entries = [(before[-1][0], start_offset), *self._entries[len(before) :]]
        return True

    def clear(self) -> None:
        self._entries.clear()
        self.latest = UNKNOWN

    def encode(self) -> bytes:
        # A copy: a controller's flush encodes in a thread.
        entries = self.entries
        lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> "LeaderEpochs":
        """Parse the content of an epochs file. Raises ValueError if the content is not a whole checkpoint."""
        try:
            version, count, *lines = content.decode().splitlines()
            entries = [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines)]
        except ValueError as error:
            raise ValueError(f"the leader epoch checkpoint is invalid: {error}") from None
        starts = [start for _, start in entries]
        whole = content.endswith(b"\n") and version == "0" and count == str(len(entries))
        if not whole or entries != sorted(dict(entries).items()) or starts != sorted(starts):
            raise ValueError("a damaged leader epoch checkpoint")
        return cls(entries)
