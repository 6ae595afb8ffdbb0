from pathlib import Path

import pytest

from e2e.kind import places
from tests.support.obtain.cache import ObtainError


def test_a_change_of_a_nodes_files_makes_another_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unit").write_text("one")
    monkeypatch.setattr(places, "NODE_FILES", tmp_path)
    before = places.store_folder()
    (tmp_path / "unit").write_text("two")
    assert places.store_folder() != before


def test_clusters_of_two_names_share_no_folder() -> None:
    one, other = places.ClusterPlace("one"), places.ClusterPlace("other")
    assert {one.disks, one.run}.isdisjoint({other.disks, other.run})
    assert len(f"{places.ClusterPlace('a' * 40).run}/docker.sock") < 108, "the kernel's limit for a socket's path"


@pytest.mark.parametrize("name", ["", "..", "a/b", "Mine", "-x", "a" * 41])
def test_a_name_that_is_no_folder_of_its_own_is_refused(name: str) -> None:
    with pytest.raises(ObtainError, match="is no name of a cluster"):
        places.ClusterPlace(name)
