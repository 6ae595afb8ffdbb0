"""The figures of the table that `sluicegate storm` prints."""

import re


def accepted(report: str) -> int:
    """Return how many connections of a storm were accepted, of all its sources. Raises ValueError without a table."""
    found = re.findall(r"(?:all|any)\W+\d+\W+(\d+)", report)
    if not found:
        raise ValueError(f"no table of a storm: {report}")
    return int(found[-1])
