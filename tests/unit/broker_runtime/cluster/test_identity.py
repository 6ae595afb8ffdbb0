"""The owner of a data folder, and incarnation ids: what they tell, and that no two are the same."""

from pathlib import Path
from uuid import RFC_4122

import pytest

from broker_runtime.cluster.identity import claim_folder, new_incarnation
from broker_runtime.errors import ConfigError

BEGAN_MS = 1_645_557_742_123


def test_an_incarnation_begins_with_its_time_as_rfc_9562_has_it() -> None:
    incarnation = new_incarnation(BEGAN_MS)
    assert incarnation.int >> 80 == BEGAN_MS
    assert (incarnation.version, incarnation.variant) == (7, RFC_4122)


def test_two_of_one_moment_differ() -> None:
    made = {new_incarnation(BEGAN_MS) for _ in range(100)}
    assert len(made) == 100


def test_a_clock_from_before_the_epoch_makes_an_id_all_the_same() -> None:
    assert new_incarnation(-1).version == 7


def test_a_folder_belongs_to_its_cluster(tmp_path: Path) -> None:
    assert claim_folder(tmp_path, 1, "cluster") == claim_folder(tmp_path, 1, None) == "cluster"
    with pytest.raises(ConfigError, match="belongs to cluster cluster, not to other"):
        claim_folder(tmp_path, 1, "other")


def test_any_damaged_byte_of_the_identity_gives_a_result_or_an_error_message(tmp_path: Path) -> None:
    claim_folder(tmp_path, 1, "cluster")
    path = tmp_path / "meta.properties"
    content = path.read_bytes()
    for at in range(len(content)):
        for bits in (1, 0x20, 0x80, 0xFF):
            path.write_bytes(content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :])
            try:
                claim_folder(tmp_path, 1, "cluster")
            except ConfigError as error:
                assert "restore the file" in str(error) or "belongs to" in str(error)  # noqa: PT017
