"""Landing: turns complete spools into segments, and deletes them once the segments are durable.

Landing may be killed anywhere and repeated: it produces the same files, because their content depends on the spool
only.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from audit_pipeline.spool.segment import Footer, NoSegmentError, SegmentFile, is_merged_into, segment_files
from audit_pipeline.spool.spool import NoSpoolError, OtherVersionError
from audit_pipeline.spool.spool_folder import FoundSpool, boots, forget_behind, forget_boot, spools_of
from audit_pipeline.spool.stored_segment import footer_at
from audit_pipeline.spool.tables import gaps_of
from audit_pipeline.spool.targets import DRAFT_PREFIX, Target

log = logging.getLogger(__name__)


class SegmentConflictError(RuntimeError):
    """An existing segment of the audit log differs from the spool that it was made from. Both are left unchanged."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The result of one pass that landed audit logs.

    `problems` are messages, each about a spool that stays in place.
    """

    spools: int
    files: int
    events: int
    problems: tuple[str, ...]


def land(folder: Path, target: Target) -> Landed:
    """Land all spools that are complete now. Raises OSError if the target fails."""
    spools, files, events = 0, 0, 0
    problems: list[str] = []
    for boot_id in boots(folder):
        is_over, keeps = True, False
        try:
            for spool in spools_of(folder, boot_id):
                is_over = spool.is_complete and spool.ended
                if not spool.is_complete:
                    break
                made = land_spool(spool, target)
                try:
                    if spool.ended:
                        forget_behind(spool)
                    spool.path.unlink(missing_ok=True)
                except OSError as error:
                    # The spool is landed again, to the same files, until it can be deleted.
                    problems.append(f"{spool.path} is landed, but cannot be deleted: {error}")
                    keeps = True
                    continue
                spools += 1
                files += len(made)
                events += _events(spool)
            if is_over and not keeps and [boot_id] != boots(folder)[-1:]:
                forget_boot(folder, boot_id)
        except (NoSpoolError, OtherVersionError, SegmentConflictError) as error:
            problems.append(f"boot {boot_id}: {error}")
    return Landed(spools, files, events, tuple(problems))


def land_spool(spool: FoundSpool, target: Target) -> list[SegmentFile]:
    """Put the missing files of the spool's segment into the target. Raises SegmentConflictError, OSError."""
    gaps = list(gaps_of(spool.content, spool.until_seq, ended=spool.ended))
    for gap in gaps:
        log.warning(
            "%s: %d to %d are missing (%s)", spool.path.name, gap.first_seq, gap.last_seq, gap.detail or gap.reason
        )
    made = segment_files(spool.content, gaps, ended=spool.ended)
    for file in made:
        there = _footer_there(file.path, target)
        if there is None and not _is_merged(file.path, target):
            target.put(file.path, file.data)
        elif there is None:
            log.info("%s was merged with others before its spool was deleted", file.path)
        elif there != file.footer:
            raise SegmentConflictError(
                f"{spool.path}: {file.path} already exists and has other events: it stays unchanged"
            )
    return made


def _is_merged(path: str, target: Target) -> bool:
    """Whether compaction has merged and deleted the file: a spool that a kill has left must not land twice."""
    folder, _, name = path.rpartition("/")
    names = (stored.path.rpartition("/")[2].removeprefix(DRAFT_PREFIX) for stored in target.files(folder))
    return is_merged_into(name, names)


def _footer_there(path: str, target: Target) -> Footer | None:
    """Return the footer of a complete segment; an incomplete one is written again."""
    try:
        return footer_at(path, target)
    except (FileNotFoundError, NoSegmentError):
        return None


def _events(spool: FoundSpool) -> int:
    return sum(block.last_seq - block.first_seq + 1 for block in spool.content.blocks)
