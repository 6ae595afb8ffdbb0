"""All that a run shows to its users, in files of one folder, and the search for generated secrets in them."""

import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from e2e.disclosure.generated import of_value

SHOWN_MAX = 20
_BLOCK_BYTES = 1 << 20


class Outputs:
    """Keeps outputs and needles of a run. Threads may add to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._needles: dict[str, str] = {}

    @property
    def secrets(self) -> int:
        """Number of the needles."""
        return len(self._needles)

    def add(self, name: str, text: str) -> None:
        """Append a text to the output of that name."""
        with self._lock, self.place(name).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{text}\n")

    def place(self, name: str) -> Path:
        """Return the file of an output; a name may have any characters."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / re.sub(r"[^\w.-]+", "_", name)

    def hide(self, needles: dict[str, str]) -> None:
        """Add needles, each with the name of its secret."""
        with self._lock:
            self._needles |= needles

    def hide_value(self, name: str, text: str) -> None:
        """Add the needles of a secret that is in no Secret, such as a projected token."""
        self.hide(dict.fromkeys(of_value("", text), name))

    def disclosures(self, more: Iterable[Path] = ()) -> list[str]:
        """Return the places where secrets are shown, without the secrets: in the outputs and in `more` files."""
        files = [*sorted(path for path in self.folder.rglob("*") if path.is_file()), *more]
        with self._lock:
            needles = {needle.encode(): name for needle, name in self._needles.items()}
        found = {f"{path}: {needles[needle]}" for path in files for needle in _found(path, list(needles))}
        return sorted(found)

    def check(self, more: Iterable[Path] = ()) -> None:
        """Raise AssertionError if an output shows a secret."""
        found = self.disclosures(more)
        listed = "\n".join(found[:SHOWN_MAX])
        assert not found, f"{len(found)} outputs show secrets of the run:\n{listed}"


def _found(path: Path, needles: list[bytes]) -> Iterator[bytes]:
    """Yield the needles that a file contains. Blocks overlap, so that none is overlooked between two of them."""
    overlap = max(map(len, needles), default=0)
    with path.open("rb") as file:
        kept = b""
        while block := file.read(_BLOCK_BYTES):
            text = kept + block
            yield from (needle for needle in needles if needle in text)
            kept = text[-overlap:] if overlap else b""
