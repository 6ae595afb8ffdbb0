"""Judge the free space of data folders and volumes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import FREE_SPACE
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread

FREE_WARNING, FREE_PROBLEM = 0.10, 0.05
"""Parts of a disk that must be free."""
FREE_PROBLEM_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The space of one disk in bytes. `of` names the disk."""

    of: str
    free: int
    total: int


def space_results(disks: Sequence[DiskSpace]) -> Iterator[CheckResult]:
    """Yield a result for each disk that has little free space, and one for the others."""
    good = []
    for disk in disks:
        part = disk.free / max(disk.total, 1)
        sentence = f"{disk.of}: {gib(disk.free)} of {gib(disk.total)} are free ({part:.0%})"
        if part < FREE_PROBLEM or disk.free < FREE_PROBLEM_BYTES:
            yield FREE_SPACE.problem(sentence)
        elif part < FREE_WARNING:
            yield FREE_SPACE.warning(sentence)
        else:
            good.append((part, sentence))
    if good:
        _, least = min(good)
        others = f", the least of {len(good)} volumes" if len(good) > 1 else ""
        yield FREE_SPACE.ok(f"{least}{others}")


def gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def claims_space(summaries: Sequence[Mapping[str, Any] | Unread], namespace: str, claims: set[str]) -> list[DiskSpace]:
    """Return the space of these volume claims, from the statistics of kubelets."""
    found: dict[str, DiskSpace] = {}
    for summary in summaries:
        pods = () if isinstance(summary, Unread) else summary.get("pods") or ()
        for volume in (one for pod in pods for one in pod.get("volume") or ()):
            claim = volume.get("pvcRef") or {}
            sizes = volume.get("availableBytes"), volume.get("capacityBytes")
            if claim.get("namespace") == namespace and claim.get("name") in claims and None not in sizes:
                found[claim["name"]] = DiskSpace(f"volume {claim['name']}", int(sizes[0]), int(sizes[1]))
    return [found[name] for name in sorted(found)]
