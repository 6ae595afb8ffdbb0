"""Names of a journal's objects: they sort by offset, and contain it. Pure."""

from broker_runtime.controller.journal.seam import JournalDamagedError


class ObjectNames:
    """Object names with a common `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.manifest = f"{prefix}-manifest"

    def batch(self, base: int) -> str:
        return f"{self._prefix}-batch-{base:020d}"

    def chunk(self, end_offset: int, epoch: int, number: int) -> str:
        return f"{self._prefix}-snapshot-{end_offset:020d}-{epoch:010d}-{number:04d}"

    def offset_of(self, name: str) -> int:
        """Return a batch's first offset, or a chunk's snapshot end offset. Raises JournalDamagedError."""
        kind, _, rest = name.removeprefix(f"{self._prefix}-").partition("-")
        digits = rest.partition("-")[0]
        if kind not in ("batch", "snapshot") or not digits.isdecimal():
            raise JournalDamagedError(
                f"the object {name} has the journal's labels, but its name is not one of the journal's"
            )
        return int(digits)
