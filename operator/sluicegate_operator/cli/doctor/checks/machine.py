"""Judge the data folder of `sluicegate up`. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from sluicegate_operator.cli.doctor.checks.catalogue import DATA_FOLDER, FREE_SPACE, UP
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread
from sluicegate_operator.cli.doctor.checks.space import DiskSpace, space_results


@dataclass(frozen=True, slots=True)
class FolderSeen:
    """The data folder.

    `refusal` says why it cannot be written, and is empty if it can. `exists` is False before the first `up`.
    """

    path: str
    exists: bool
    refusal: str
    space: DiskSpace | Unread


def folder_results(folder: FolderSeen) -> Iterator[CheckResult]:
    if folder.refusal:
        yield DATA_FOLDER.problem(f"{folder.path}: {folder.refusal}")
    elif folder.exists:
        yield DATA_FOLDER.ok(f"{folder.path} can be written")
    else:
        yield DATA_FOLDER.ok(f"{folder.path} does not exist yet, and can be created")
    if isinstance(folder.space, Unread):
        yield FREE_SPACE.skipped(f"free space of {folder.path}: {folder.space.why}")
    else:
        yield from space_results([folder.space])


def up_results(names: list[str] | Unread, *, is_damaged: bool = False) -> Iterator[CheckResult]:
    """Judge whether `up` runs.

    `names`: its clusters, or why they are unknown. `is_damaged`: its state cannot be read.
    """
    if isinstance(names, Unread):
        sentence = f"{names.why}; nodes, brokers, addresses and objects were not checked"
        yield UP.problem(sentence) if is_damaged else UP.skipped(sentence)
    else:
        yield UP.ok(f"it runs {', '.join(names) or 'no cluster'}")
