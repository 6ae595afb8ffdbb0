"""Removes the unfinished files of landers and `upkeep` from a target. Shell."""

from audit_pipeline.spool.listing import is_plan_path
from audit_pipeline.spool.segment import is_segment_path
from audit_pipeline.spool.targets import Target
from audit_pipeline.upkeep.retention import EXPIRED


def clean_segments(target: Target, unchanged_s: float = 0.0) -> None:
    """Remove unfinished files unchanged for `unchanged_s`; files of other programs in a folder stay."""
    target.clean(_is_put, unchanged_s)


def _is_put(path: str) -> bool:
    return is_segment_path(path) or is_plan_path(path) or path == EXPIRED
