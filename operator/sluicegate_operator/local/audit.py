"""Locations of the audit logs of `sluicegate up` in its data folder, for writers and readers."""

from pathlib import Path
from typing import NamedTuple

from sluicegate_operator.fleet.local.local_data import DataDirError

FOLDER = "audit"
"""Name of the folder of segments below a cluster's folder, and of the folder of spools below a broker's data."""


class LocalAudit(NamedTuple):
    """The folders of a local audit log.

    `segments` may not exist yet; `spools` are those of all brokers that have any.
    """

    segments: Path
    spools: tuple[Path, ...]


def segments_folder(data_dir: Path, cluster: str) -> Path:
    return data_dir / cluster / FOLDER


def spools_folder(node_dir: Path) -> Path:
    return node_dir / "data" / FOLDER


def find_local_audit(data_dir: Path, cluster: str | None) -> LocalAudit:
    """Return the audit log of this cluster, or of the only one that has an audit log. Raises DataDirError."""
    names = sorted({path.relative_to(data_dir).parts[0] for path in data_dir.glob(f"*/node-*/data/{FOLDER}")})
    where = data_dir.absolute()
    if not names:
        raise DataDirError(
            f"no cluster in {where} has an audit log: apply an ObserverPlugin with builtIn: audit-log, name"
            " another folder of `sluicegate up` with --data-dir, or name the folders of the audit log"
        )
    if cluster is None and len(names) > 1:
        raise DataDirError(f"{', '.join(names)} have audit logs in {where}: choose one with --cluster")
    chosen = cluster or names[0]
    if chosen not in names:
        raise DataDirError(f"{chosen} has no audit log in {where}; these clusters have one: {', '.join(names)}")
    spools = sorted(data_dir.glob(f"{chosen}/node-*/data/{FOLDER}"))
    return LocalAudit(segments_folder(data_dir, chosen), tuple(spools))
