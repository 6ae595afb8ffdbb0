"""SHA256SUMS of a folder of artefacts, and the comparison of two such folders."""

import hashlib
from pathlib import Path

SUMS = "SHA256SUMS"
_BLOCK_BYTES = 1 << 20


def write_sums(folder: Path) -> Path:
    """Write the sums of all files of the folder, in the form of `sha256sum`, and return the file's path."""
    place = folder / SUMS
    lines = [f"{_sum(path)}  {path.relative_to(folder)}\n" for path in _files(folder) if path != place]
    place.write_text("".join(lines), encoding="utf-8")
    return place


def first_difference(one: Path, other: Path) -> str | None:
    """Return a sentence about the first file that differs between two folders; None if all bytes are the same."""
    names = [[str(path.relative_to(folder)) for path in _files(folder)] for folder in (one, other)]
    if only := sorted(set(names[0]) ^ set(names[1])):
        return f"{only[0]} is only in {one if only[0] in names[0] else other}"
    for name in sorted(names[0], key=lambda name: (name == SUMS, name)):
        at = _differs_at(one / name, other / name)
        if at is not None:
            return f"{name} differs from byte {at} on: {_around(one / name, at)} and {_around(other / name, at)}"
    return None


def _differs_at(one: Path, other: Path) -> int | None:
    """Return the offset of the first byte that differs."""
    offset = 0
    with one.open("rb") as left, other.open("rb") as right:
        while True:
            pair = left.read(_BLOCK_BYTES), right.read(_BLOCK_BYTES)
            if pair[0] != pair[1]:
                same = (at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b)
                return offset + next(same, min(map(len, pair)))
            if not pair[0]:
                return None
            offset += len(pair[0])


def _around(path: Path, at: int) -> str:
    with path.open("rb") as content:
        content.seek(max(0, at - 16))
        return repr(content.read(48))


def _sum(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
