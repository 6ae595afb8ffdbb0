"""Lists the files of a target that are its segments, even while a compaction is running or was interrupted."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from audit_pipeline.spool.manifest_file import read_note
from audit_pipeline.spool.targets import DRAFT_PREFIX, SUFFIX, Target

_PLAN_PREFIX = "_compacting-"
_PLAN_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The plan of a compaction: files that become others. `merged` are pairs of a draft and its final name.

    Until the plan is `committed` the drafts may be incomplete and do not count; afterwards they count, and `originals`
    do not.
    """

    originals: tuple[str, ...]
    merged: tuple[tuple[str, str], ...]
    committed: bool

    def packed(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class SegmentPath(NamedTuple):
    table: str
    path: str
    size: int
    changed_ns: int | None = None


def plan_path(broker: str) -> str:
    return f"{_PLAN_PREFIX}{broker}{_PLAN_SUFFIX}"


def is_plan_path(path: str) -> bool:
    return "/" not in path and path.startswith(_PLAN_PREFIX) and path.endswith(_PLAN_SUFFIX)


def compaction_plans(target: Target, paths: Sequence[str]) -> dict[str, CompactionPlan]:
    """Return the plans of running and interrupted compactions, by path. Raises OSError and BadUseError."""
    found = {}
    for path in paths:
        if is_plan_path(path):
            plan = read_note(target, path, CompactionPlan)
            if plan is not None:
                found[path] = plan
    return found


def segment_paths(target: Target) -> list[SegmentPath]:
    """Return the segment files of a target, which have every event exactly once."""
    stored = {each.path: each for each in target.files()}
    plans = [plan for plan in compaction_plans(target, list(stored)).values() if plan.committed]
    left_out = {path for plan in plans for path in plan.originals}
    # In an object store a renamed draft may still exist under both names.
    drafts = {draft for plan in plans for draft, name in plan.merged if name not in stored}
    return [
        SegmentPath(path.partition("/")[0], path, each.size, each.changed_ns)
        for path, each in stored.items()
        if path.endswith(SUFFIX)
        and path not in left_out
        and (path in drafts or not path.rpartition("/")[2].startswith(DRAFT_PREFIX))
    ]
