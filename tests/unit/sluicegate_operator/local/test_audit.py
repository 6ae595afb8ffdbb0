from pathlib import Path

import pytest

from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.local.audit import LocalAudit, find_local_audit


def with_spools(data_dir: Path, cluster: str, *nodes: int) -> tuple[Path, ...]:
    folders = tuple(data_dir / cluster / f"node-{node}" / "data" / "audit" for node in nodes)
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def test_the_only_cluster_with_an_audit_log_need_not_be_named(tmp_path: Path) -> None:
    (tmp_path / "other" / "node-0" / "data").mkdir(parents=True)
    spools = with_spools(tmp_path, "shop", 0, 2)
    assert find_local_audit(tmp_path, None) == LocalAudit(tmp_path / "shop" / "audit", spools)


def test_of_several_one_is_chosen(tmp_path: Path) -> None:
    with_spools(tmp_path, "shop", 0)
    spools = with_spools(tmp_path, "web", 1)
    assert find_local_audit(tmp_path, "web") == LocalAudit(tmp_path / "web" / "audit", spools)
    with pytest.raises(DataDirError, match=r"shop, web have audit logs in .*: choose one with --cluster"):
        find_local_audit(tmp_path, None)
    with pytest.raises(DataDirError, match=r"depot has no audit log in .*; these clusters have one: shop, web"):
        find_local_audit(tmp_path, "depot")


def test_the_error_for_a_missing_audit_log_says_how_to_enable_it(tmp_path: Path) -> None:
    with pytest.raises(DataDirError, match="apply an ObserverPlugin with builtIn: audit-log"):
        find_local_audit(tmp_path / "nowhere", None)
