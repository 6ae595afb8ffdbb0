"""Which files of a target are its segments, also while a compaction is under way or was interrupted."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from audit_pipeline.targets import DRAFT_PREFIX, SUFFIX, Target

_PLAN_PREFIX = "_compacting-"
_PLAN_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Files that become others: `merged` are pairs of a draft and the name that it will have.

    Not `committed`, the drafts may be unfinished and count for nothing; committed, they count and `originals` do not.
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
    """Those that are under way or were interrupted, by the path of the plan."""
    found = {}
    for path in paths:
        if is_plan_path(path):
            try:
                with target.file_system.open_input_stream(path) as file:
                    read = json.loads(file.read())
            except FileNotFoundError:
                continue
            merged = tuple((draft, name) for draft, name in read["merged"])
            found[path] = CompactionPlan(tuple(read["originals"]), merged, read["committed"])
    return found


def segment_paths(target: Target) -> list[SegmentPath]:
    """Every event is in these files once."""
    stored = {each.path: each for each in target.files()}
    plans = [plan for plan in compaction_plans(target, list(stored)).values() if plan.committed]
    left_out = {path for plan in plans for path in plan.originals}
    # In an object store a draft that was given its name may still be there under both.
    drafts = {draft for plan in plans for draft, name in plan.merged if name not in stored}
    return [
        SegmentPath(path.partition("/")[0], path, each.size, each.changed_ns)
        for path, each in stored.items()
        if path.endswith(SUFFIX)
        and path not in left_out
        and (path in drafts or not path.rpartition("/")[2].startswith(DRAFT_PREFIX))
    ]
