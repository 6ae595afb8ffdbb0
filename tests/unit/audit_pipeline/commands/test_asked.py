"""What the commands that print results share."""

import argparse
from datetime import UTC, datetime

import duckdb
import pytest

from audit_pipeline.commands.asked import Asked, add_asked, asked_of, show
from audit_pipeline.errors import BadUseError

ROWS = """(VALUES
    (TIMESTAMPTZ '2026-11-22 10:00:00+00', 'one', 'shop-1', 'orders'),
    (TIMESTAMPTZ '2026-11-22 10:10:00+00', 'one', 'sluicegate-operator', 'orders'),
    (TIMESTAMPTZ '2026-11-22 10:20:00+00', 'two', NULL, 'stock'),
    (TIMESTAMPTZ '2026-11-23 00:00:00+00', 'two', 'shop-2', NULL)
) AS rows(moment, cluster_id, client_id, topic)"""


def parsed(*arguments: str) -> Asked:
    parser = argparse.ArgumentParser()
    add_asked(parser, "client", "topic")
    return asked_of(parser.parse_args(["--results", "r", *arguments]))


def found(asked: Asked) -> list[str]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        condition = asked.condition(time="moment", step_us=600_000_000, client="client_id", topic="topic")
        given = {name: value for name, value in asked.parameters.items() if f"${name}" in condition}
        sql = f"SELECT strftime(moment, '%H:%M') FROM {ROWS} WHERE {condition} ORDER BY moment"
        return [time for (time,) in connection.execute(sql, given).fetchall()]


def test_own_clients_are_folded_away_unless_asked_for() -> None:
    assert found(parsed()) == ["10:00", "10:20", "00:00"]
    assert found(parsed("--own")) == ["10:00", "10:10", "10:20", "00:00"]


def test_names_are_whole_or_beginnings() -> None:
    assert found(parsed("--client", "shop-1")) == ["10:00"]
    assert found(parsed("--client", "shop-*")) == ["10:00", "00:00"]
    assert found(parsed("--client", "shop")) == []
    assert found(parsed("--topic", "s*")) == ["10:20"]
    assert found(parsed("--cluster", "two")) == ["10:20", "00:00"]
    assert found(parsed("--topic", "' OR true --")) == []


def test_a_window_counts_if_any_of_it_is_asked_for() -> None:
    assert found(parsed("--from", "2026-11-22T10:09:59", "--own")) == ["10:00", "10:10", "10:20", "00:00"]
    assert found(parsed("--from", "2026-11-22T10:10", "--own")) == ["10:10", "10:20", "00:00"]
    assert found(parsed("--to", "2026-11-22T10:10")) == ["10:00"]
    assert found(parsed("--to", "2026-11-22T11:10+01:00")) == ["10:00"]


def test_a_day_as_the_end_is_included() -> None:
    assert found(parsed("--to", "2026-11-22")) == ["10:00", "10:20"]
    assert found(parsed("--from", "2026-11-23", "--to", "2026-11-23")) == ["00:00"]


def test_an_empty_window_and_a_wrong_time_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadUseError, match="the time window is empty"):
        parsed("--from", "2026-11-22T10:00", "--to", "2026-11-22T10:00")
    with pytest.raises(SystemExit):
        parsed("--from", "yesterday")
    assert "yesterday is not a UTC day such as 2026-11-22" in capsys.readouterr().err


def test_each_form_of_output(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
    rows = [{"at": at, "bytes": 1234567, "share": 0.125, "is_own": True, "client": None, "more": 1}]
    columns = ("at", "bytes", "share", "is_own", "client")
    for output in ("table", "json", "csv"):
        show(rows, columns, output)
    assert capsys.readouterr().out.splitlines() == [
        "at                   bytes      share  is_own  client",
        "2026-11-22 10:00:00  1,234,567  0.125  yes",
        '{"at": "2026-11-22T10:00:00+00:00", "bytes": 1234567, "share": 0.125, "is_own": true, "client": null}',
        "at,bytes,share,is_own,client",
        "2026-11-22T10:00:00+00:00,1234567,0.125,True,",
    ]
