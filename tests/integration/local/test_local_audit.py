"""`sluicegate up` with an audit log: landed while the brokers run, complete after they have stopped."""

import shutil
from pathlib import Path

from confluent_kafka import Producer

from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from tests.support.processes.broker_process import ROOT
from tests.support.processes.local_fleet import LocalUp, copy_quickstart, run_command

PRODUCED = "SELECT sum(records) AS records FROM partition WHERE api_key = 0"


def asked(*arguments: str) -> str:
    return run_command("audit", "query", "--json", *arguments).stdout


def test_what_a_producer_did_is_in_the_files_when_everything_has_stopped(tmp_path: Path) -> None:
    with LocalUp(copy_quickstart(tmp_path, brokers=2), tmp_path / "data") as up:
        pids = up.pids()
        shutil.copy(ROOT / "examples" / "observers" / "audit-log.yaml", up.manifests / "audit-log.yaml")
        up.wait_until(lambda: len(list((tmp_path / "data").rglob("audit/*.spool"))) == 2, "brokers write spools")
        producer = Producer({"bootstrap.servers": up.external(), "linger.ms": 0, "message.timeout.ms": 60_000})
        acknowledged: list[bool] = []
        for _ in range(50):
            producer.produce("orders", b"x", on_delivery=lambda error, _: acknowledged.append(error is None))
            producer.flush(60)
        assert sum(acknowledged) == 50
        assert up.pids() == pids
        data_dir = ("--data-dir", str(tmp_path / "data"))
        up.wait_until(lambda: '"records": 50' in asked(PRODUCED, *data_dir), "what is not landed yet is found, too")
        shown = run_command("audit", "tail", "--from-start", "--once", "--table", "request", *data_dir).stdout
        assert shown.count(" request Produce v") == 50
        up.stop()
        checked = run_command("audit", "check", *data_dir)
        assert (checked.returncode, checked.stderr) == (0, "")
        target = FolderTarget(tmp_path / "data" / "shop" / "audit")
        assert check(target).findings == []
        produced = "SELECT sum(records), count(DISTINCT broker_id) > 0 FROM partition WHERE api_key = 0"
        assert Events(target).ask(produced)[1] == [(50, True)]
