"""The message of `follow` for an invalid request, before it starts Spark."""

from pathlib import Path
from threading import Event

import pytest

from audit_pipeline.__main__ import main

BAD_USE = 2


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--source", "s3://audit/segments", "for an object store use `build`"),
        ("--source", "kafka:127.0.0.1:9092", "does not name a topic"),
        ("--results", "s3://audit/results", "--results must be a folder"),
        ("--results", "", "the name of the folder is empty"),
        ("--results", "kafka:127.0.0.1:9092/audit", "is a topic, but a folder"),
        ("--interval-s", "0", "--interval-s at least 0.1"),
        ("--interval-s", "5e-324", "--interval-s at least 0.1"),
        ("--interval-s", "nan", "--interval-s at least 0.1"),
    ],
)
def test_what_cannot_be_followed_is_named(
    option: str, value: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--source": str(tmp_path), "--results": str(tmp_path / "results"), option: value}
    assert main(["follow", *(word for pair in given.items() for word in pair)], Event()) == BAD_USE
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
