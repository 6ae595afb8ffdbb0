import json
import os
from pathlib import Path

import pytest

from sluicegate_operator.api import load_manifests
from sluicegate_operator.fleet.local.local_data import (
    FREE_PORTS,
    DataDir,
    DataDirError,
    PortBook,
    manifests_file,
    read_state,
)

EXAMPLES = Path(__file__).parents[5] / "examples"


def test_a_folder_belongs_to_one_up_at_a_time(tmp_path: Path) -> None:
    refusal = rf"in use by another `sluicegate up` \(pid {os.getpid()}\)"
    with DataDir(tmp_path / "data"), pytest.raises(DataDirError, match=refusal):
        DataDir(tmp_path / "data").__enter__()
    with DataDir(tmp_path / "data"):
        assert (tmp_path / "data" / "lock").read_text() == f"{os.getpid()}\n"


def test_a_folder_that_cannot_be_made_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirError, match="--data-dir"):
        DataDir(tmp_path / "file" / "data").__enter__()


def test_state_is_there_while_up_runs(tmp_path: Path) -> None:
    with pytest.raises(DataDirError, match="no `sluicegate up` runs"):
        read_state(tmp_path)
    with DataDir(tmp_path) as data:
        with pytest.raises(DataDirError, match="still starting"):
            read_state(tmp_path)
        data.write_state({"clusters": {}})
        assert read_state(tmp_path) == {"clusters": {}}
    with pytest.raises(DataDirError, match="no `sluicegate up` runs"):
        read_state(tmp_path)


def test_a_lock_left_by_a_killed_up_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("999999999\n")
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(DataDirError, match="no `sluicegate up` runs"):
        read_state(tmp_path)
    with DataDir(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_broken_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{")
    with DataDir(tmp_path) as data, pytest.raises(DataDirError, match="remove the file"):
        data.read_ports()


def test_ports_survive_a_restart(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        data.write_ports({"shop/1/EXTERNAL": 9094})
    with DataDir(tmp_path) as data:
        assert data.read_ports() == {"shop/1/EXTERNAL": 9094}
    assert json.loads((tmp_path / "ports.json").read_text()) == {"shop/1/EXTERNAL": 9094}


def test_the_remembered_port_comes_first_then_the_wanted_one_then_any() -> None:
    book = PortBook({"a": 9094}, is_free=lambda port: port != 9096)
    assert book.port_for("a", wanted=9095) == 9094
    assert book.port_for("b", wanted=9095) == 9095
    assert book.port_for("c", wanted=9096) in FREE_PORTS
    assert book.port_for("d", wanted=9094) in FREE_PORTS, "another key has it"
    assert book.port_for("b", wanted=1) == 9095, "stable"
    assert len(set(book.ports.values())) == 4


def test_a_remembered_port_that_somebody_took_is_given_up() -> None:
    book = PortBook({"a": 9094}, is_free=lambda port: port != 9094)
    assert book.port_for("a", wanted=None) in FREE_PORTS


def test_ports_remembered_for_others_are_not_handed_out() -> None:
    book = PortBook({"a": 9094}, is_free=lambda port: True)
    assert book.port_for("b", wanted=9094) != 9094


def test_running_out_of_ports_is_an_error() -> None:
    book = PortBook({}, is_free=lambda port: False)
    with pytest.raises(DataDirError, match="no free port"):
        book.port_for("a", wanted=None)


def test_a_forgotten_port_is_free_for_others() -> None:
    book = PortBook({"a": 9094}, is_free=lambda port: True)
    book.port_for("a", wanted=None)
    book.forget("a")
    assert book.port_for("b", wanted=9094) == 9094


def test_what_was_applied_is_read_again_as_manifests(tmp_path: Path) -> None:
    applied = load_manifests([EXAMPLES / "quickstart"])
    DataDir(tmp_path).write_manifests(applied.resources)
    found = load_manifests([manifests_file(tmp_path)])
    assert found.errors == ()
    assert [(one.kind, one.name, one.spec) for one in found.resources] == [
        (one.kind, one.name, one.spec) for one in applied.resources
    ]
