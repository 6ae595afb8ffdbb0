"""`what-if`: the connections of a landed log under limits in JSON."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from audit_pipeline.__main__ import main
from audit_pipeline.what_if.limits_in_force import LimitsInForce
from connection_limits.settings import QuotaSettings, Strategy
from tests.support.audit.connection_storms import CALM, CALM_CONNECTIONS, DAY, STORM_CONNECTIONS, STORMY, land_storm

LISTENER_RATE = "listener.name.clients.max.connection.creation.rate"
TEN_A_SECOND: Mapping[str, Any] = {
    "configs": {LISTENER_RATE: "10", "connection.quota.strategy": "token-bucket"},
    "quotas": [],
    "names": [{"key": LISTENER_RATE, "entity": None, "quota": "shop/clients"}],
    "notes": [],
}
OF_ADDRESS: Mapping[str, Any] = {
    "configs": {},
    "quotas": [{"entity": {"ip": STORMY}, "key": "connection_creation_rate", "value": 1.0}],
    "names": [{"key": "connection_creation_rate", "entity": f"ip={STORMY}", "quota": "shop/stormy"}],
    "notes": [],
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("storm")
    land_storm(folder)
    return folder / "segments"


def asked(log: Path, limits: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(limits)))
    return main(["what-if", "--audit", str(log), "--limits", "-", *options], Event())


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_limit_is_shown_by_quota_and_client_beside_what_happened(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(log, TEN_A_SECOND, monkeypatch, "-o", "json") == 0
    found = document(capsys)
    assert found["connections"] == CALM_CONNECTIONS + STORM_CONNECTIONS
    limited, _ = found["limits"]
    assert (limited["quota"], limited["limit"]) == ("shop/clients", LISTENER_RATE)
    assert limited["delayed"] == limited["accepted"] == limited["connections"] > 50
    assert 3_000 < limited["delay_max_ms"] < 7_000
    assert (limited["was_accepted"], limited["was_delayed"], limited["was_delay_max_ms"]) == (
        limited["connections"],
        0,
        None,
    )
    clients = {row["client_ip"]: row for row in found["clients"] if row["limit"] is not None}
    assert set(clients) == {CALM, STORMY}
    assert clients[STORMY]["delayed"] > clients[CALM]["delayed"] > 5
    assert any("clients would have hung up" in note for note in found["notes"])
    assert found["incomplete"] == []


def test_a_table_is_what_people_see(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(log, OF_ADDRESS, monkeypatch) == 0
    shown = capsys.readouterr()
    assert "80 connections" in shown.out
    assert "shop/stormy" in shown.out
    assert STORMY in shown.out
    assert "rejected in the replay: the log cannot tell how often their clients would have tried again" in shown.out
    assert shown.err == ""


def test_under_the_limits_in_force_every_decision_is_that_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = QuotaSettings(max_connection_creation_rate=10, strategy=Strategy.TOKEN_BUCKET, max_connections=30)
    land_storm(tmp_path, settings)
    arguments = ["what-if", "--audit", str(tmp_path / "segments"), "--in-force"]
    assert main([*arguments, "-o", "json"], Event()) == 0
    found = document(capsys)
    compared = found["connections"]
    assert found["agreement"] == {"compared": compared, "different": 0, "changes": 0, "moves": 0, "differences": []}
    assert compared == CALM_CONNECTIONS + STORM_CONNECTIONS
    assert max(row["delayed"] for row in found["limits"]) > 20
    assert main(arguments, Event()) == 0
    assert f"{compared} of {compared} decisions are those of the log, at their times" in capsys.readouterr().out


def test_a_decision_that_differs_is_shown_and_is_the_exit_code(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The log has no limits: with one of them the replay decides otherwise.
    monkeypatch.setattr(LimitsInForce, "settings_for", lambda *_: QuotaSettings())
    monkeypatch.setattr(
        LimitsInForce,
        "enforce",
        lambda _, quotas, __, now_ms: quotas.update(QuotaSettings(max_connections=5), now_ms),
    )
    assert main(["what-if", "--audit", str(log), "--in-force"], Event()) == 4
    assert "max.connections" in capsys.readouterr().out


def test_a_quota_without_effect_is_named(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = {**TEN_A_SECOND, "configs": {LISTENER_RATE: "1000"}, "notes": ["ConnectionQuota x: it has expired"]}
    assert asked(log, weak, monkeypatch) == 0
    out = capsys.readouterr().out
    assert "shop/clients delays and rejects no connection" in out
    assert "note: ConnectionQuota x: it has expired" in out


def test_a_time_window_selects_connections_by_their_arrival(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(log, TEN_A_SECOND, monkeypatch, "-o", "json", "--from", DAY, "--to", DAY)
    assert document(capsys)["connections"] == CALM_CONNECTIONS + STORM_CONNECTIONS
    assert asked(log, TEN_A_SECOND, monkeypatch, "-o", "json", "--from", f"{DAY}T23:36:45") == 0
    assert 0 < document(capsys)["connections"] < CALM_CONNECTIONS


def test_an_incomplete_log_says_which_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    land_storm(tmp_path, segment_ms="1000")
    files = sorted((tmp_path / "segments").rglob("connection/**/*.parquet"))
    assert len(files) > 5
    files[3].unlink()
    assert asked(tmp_path / "segments", TEN_A_SECOND, monkeypatch, "-o", "json") == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out)["incomplete"] == [f"broker 7 of cluster cluster, {DAY}T23 (UTC): files are missing"]
    assert f"these hours have too few connections: broker 7 of cluster cluster, {DAY}T23" in shown.err


def test_hashed_addresses_leave_the_limits_of_all_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    land_storm(tmp_path, hash_key="0123456789abcdef")
    limits = {**TEN_A_SECOND, "quotas": OF_ADDRESS["quotas"]}
    assert asked(tmp_path / "segments", limits, monkeypatch, "-o", "json") == 0
    found = document(capsys)
    assert any("keyed hashes" in note for note in found["notes"])
    assert found["limits"][0]["quota"] == "shop/clients"


def test_limits_that_were_in_force_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    land_storm(tmp_path, QuotaSettings(listener_max_connection_creation_rate={"CLIENTS": 10}, quota_window_num=2))
    limits = {**TEN_A_SECOND, "configs": {LISTENER_RATE: "10", "quota.window.num": "2"}}
    assert asked(tmp_path / "segments", limits, monkeypatch, "-o", "json") == 0
    for row in document(capsys)["limits"]:
        for name in ("accepted", "delayed", "delay_p50_ms", "delay_p99_ms", "delay_max_ms", "rejected"):
            assert row[name] == row[f"was_{name}"], name


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({}, "the limits to try need configs (an object)"),
        ({**TEN_A_SECOND, "configs": {LISTENER_RATE: "many"}}, "the limits to try cannot be read: ValueError"),
        ({**TEN_A_SECOND, "configs": {LISTENER_RATE: "0"}}, f"brokers refuse these limits: {LISTENER_RATE}: 0 must be"),
    ],
)
def test_bad_limits_are_one_sentence(
    log: Path,
    limits: Mapping[str, Any],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asked(log, limits, monkeypatch) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(tmp_path / "nowhere", TEN_A_SECOND, monkeypatch) == 2
    assert f"folder {tmp_path}/nowhere does not exist" in capsys.readouterr().err


def test_a_folder_without_segments_and_one_of_results_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(tmp_path, TEN_A_SECOND, monkeypatch) == 2
    assert "no segments of an audit log in this time" in capsys.readouterr().err
    (tmp_path / "_manifest.json").write_text("{}", encoding="utf-8")
    assert asked(tmp_path, TEN_A_SECOND, monkeypatch) == 2
    assert "give --audit the segments from which they were built" in capsys.readouterr().err
