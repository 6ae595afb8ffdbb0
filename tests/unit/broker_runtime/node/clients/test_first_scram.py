"""The file with the credentials of a new cluster may be missing, and must be readable and right otherwise."""

from pathlib import Path

import pytest

from broker_runtime.config import BrokerSettings, broker_settings
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.areas.scram_credentials import UserScramCredentialRecord
from broker_runtime.node.clients.first_scram import first_scram_records


def settings(path: Path | None) -> BrokerSettings:
    return broker_settings({"node.id": "1"} | ({} if path is None else {"sluicegate.bootstrap.scram.file": str(path)}))


def test_credentials_become_records(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("SCRAM-SHA-256=[name=a,password=x]\nSCRAM-SHA-512=[name=a,password=x]\n")
    one, two = first_scram_records(settings(file))
    assert isinstance(one, UserScramCredentialRecord)
    assert isinstance(two, UserScramCredentialRecord)
    assert (one.name, one.mechanism, two.mechanism) == ("a", 1, 2)
    assert one.salt != two.salt


def test_no_file_means_no_credentials(tmp_path: Path) -> None:
    assert first_scram_records(settings(None)) == ()
    assert first_scram_records(settings(tmp_path / "none")) == ()


def test_a_file_that_is_wrong_stops_the_node(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        first_scram_records(settings(file))
    file.write_text("nonsense")
    with pytest.raises(ConfigError, match=r"sluicegate\.bootstrap\.scram\.file: line 1"):
        first_scram_records(settings(file))
