"""The folder that a broker writes its spools to, as seen by the lander."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from audit_pipeline.errors import BadUseError
from audit_pipeline.spool.spool import SUFFIX, UNKNOWN_SEQ, Header, NoSpoolError, SpoolContent, read_header, read_spool

_LOCK_SUFFIX = ".lock"
_LANDER_LOCK = "lander"


class AlreadyLandingError(RuntimeError):
    """Another process lands the spools of the same folder at this time."""


@dataclass(frozen=True, slots=True)
class FoundSpool:
    """A spool file of an audit log, as found in a folder.

    `until_seq` is the last number that belongs into it, if the next file shows the number. `is_complete`: nothing will
    be added. `ended`: it is the last one, and its broker has stopped.
    """

    path: Path
    content: SpoolContent
    until_seq: int | None
    is_complete: bool
    ended: bool


@contextmanager
def landing(folder: Path) -> Iterator[None]:
    """Exclude other landers for the duration of the context. Raises AlreadyLandingError, and BadUseError."""
    try:
        opened = (folder / _LANDER_LOCK).open("w")
    except OSError as error:
        raise BadUseError(
            f"{folder} cannot be written ({error.strerror}), but a lander must be able to delete spools there"
        ) from None
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyLandingError(f"another lander uses {folder}") from error
        yield


def boots(folder: Path) -> list[str]:
    """Return the boots that have spools or a lock in the folder, in order of time."""
    names = [path.name for path in folder.iterdir()]
    spools = {name.rpartition("-")[0] for name in names if name.endswith(SUFFIX)}
    return sorted(spools | {name.removesuffix(_LOCK_SUFFIX) for name in names if name.endswith(_LOCK_SUFFIX)})


def spools_of(folder: Path, boot_id: str) -> Iterator[FoundSpool]:
    """Yield the spools of one boot in order, each read on demand: together they may be large.

    Raises NoSpoolError if the origin of a spool is unknown or contradicts its name, and OtherVersionError.
    """
    lock = folder / f"{boot_id}{_LOCK_SUFFIX}"
    # The lock is checked first: what is read after the broker has ended is complete.
    ended = not _is_running(lock)
    identity = _identity(lock)
    paths = sorted(folder.glob(f"{boot_id}-*{SUFFIX}"))
    before: tuple[Path, SpoolContent] | None = None
    for path in paths:
        is_last = path == paths[-1]
        former = before[1] if before is not None else None
        if not path.stem.rpartition("-")[2].isdecimal():
            raise NoSpoolError(f"{path} does not have the name of a spool: move it to another folder")
        instead = None if is_last and not ended else _header_of(path, identity, former)
        try:
            content = _read(path.read_bytes(), instead)
        except FileNotFoundError:
            # Another lander was faster, and has landed the earlier ones, too.
            continue
        if content is None and (ended or not is_last):
            raise NoSpoolError(f"the broker and boot of {path} are not known: neither the file nor {lock} has them")
        if content is None or (is_last and content.header is instead and _was_never_begun(content, former)):
            continue
        named = f"{content.header.boot_id}-{content.header.segment:08d}{SUFFIX}"
        if named != path.name:
            raise NoSpoolError(f"{path} does not match its name; its content is that of {named}")
        if before is not None:
            yield FoundSpool(*before, content.header.first_seq - 1, is_complete=True, ended=False)
        before = path, content
    if before is not None:
        yield FoundSpool(*before, None, is_complete=ended or before[1].end is not None, ended=ended)


def _read(data: bytes, instead: Header | None) -> SpoolContent | None:
    """Return the content of a spool, None if it has no header."""
    try:
        return read_spool(data, instead)
    except NoSpoolError:
        return None


def _was_never_begun(content: SpoolContent, before: SpoolContent | None) -> bool:
    """Whether the broker could not write the header of this file, and continued with the one before."""
    return not content.blocks and before is not None and before.end is None


def is_written_to(folder: Path) -> bool:
    """Return whether a running broker writes spools to the folder."""
    return any(_is_running(path) for path in folder.glob(f"*{_LOCK_SUFFIX}"))


def forget_behind(last: FoundSpool) -> None:
    """Delete the files of an ended boot that come after its last spool.

    The broker could not write the headers of these files, and continued with the spool before. Only the last spool
    shows this, so call this function before that spool is deleted.
    """
    boot_id = last.path.name.rpartition("-")[0]
    for path in last.path.parent.glob(f"{boot_id}-*{SUFFIX}"):
        if path.name > last.path.name:
            path.unlink(missing_ok=True)


def forget_boot(folder: Path, boot_id: str) -> None:
    """Delete the rest of a boot that is landed completely; a running one may still begin its first spool.

    Raises NoSpoolError and OtherVersionError.
    """
    if _is_running(folder / f"{boot_id}{_LOCK_SUFFIX}"):
        return
    # The broker may have been running when its spools were listed, and have written one before it ended.
    if next(spools_of(folder, boot_id), None) is not None:
        return
    for path in folder.glob(f"{boot_id}-*{SUFFIX}"):
        path.unlink(missing_ok=True)
    (folder / f"{boot_id}{_LOCK_SUFFIX}").unlink(missing_ok=True)


def _is_running(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _identity(lock: Path) -> Header | None:
    try:
        return read_header(lock.read_bytes())
    except FileNotFoundError:
        return None


def _header_of(path: Path, identity: Header | None, before: SpoolContent | None) -> Header | None:
    """Return the expected header of a file, from its name, its broker's lock and the file before it."""
    known = before.header if before is not None else identity
    if known is None:
        return None
    segment = int(path.stem.rpartition("-")[2])
    if before is not None and known.segment == segment - 1:
        return replace(known, segment=segment, first_seq=_last_seq(before) + 1)
    return replace(known, segment=segment, first_seq=1 if segment == 1 else UNKNOWN_SEQ)


def _last_seq(content: SpoolContent) -> int:
    if content.end is not None:
        return content.end.last_seq
    return content.blocks[-1].last_seq if content.blocks else content.header.first_seq - 1
