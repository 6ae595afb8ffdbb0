"""A broker process whose rack another process writes into a file: it waits, and reports a timeout."""

from pathlib import Path

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import effective_config, until

FILE, TIMEOUT = "sluicegate.broker.rack.file", "sluicegate.broker.rack.timeout.ms"
WAITING = "waiting up to"


def waiting_broker(folder: Path, timeout_ms: int = 60_000) -> BrokerProcess:
    return BrokerProcess(folder=folder, properties={FILE: str(folder / "rack"), TIMEOUT: str(timeout_ms)})


def start(broker: BrokerProcess) -> None:
    broker.start(wait=False)
    until(lambda: WAITING in broker.log(), "it waits for its rack")


def test_a_broker_registers_with_its_rack_once_the_file_is_written(tmp_path: Path) -> None:
    broker = waiting_broker(tmp_path)
    try:
        start(broker)
        assert broker.get("/readyz")[0] == 0, "nothing of it is there before"
        (tmp_path / "rack").write_text("zone-b")
        broker.wait_ready()
        assert broker.brokers()[1]["rack"] == "zone-b"
        assert effective_config(broker, "broker.rack") == "zone-b"
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_a_broker_waiting_for_its_rack_stops_at_once(tmp_path: Path) -> None:
    broker = waiting_broker(tmp_path)
    try:
        start(broker)
        assert broker.stop() == 0
        assert not broker.data.exists(), "it was not started in order to be stopped"
    finally:
        broker.kill()


def test_a_broker_exits_with_1_and_a_message_if_the_file_stays_empty(tmp_path: Path) -> None:
    broker = waiting_broker(tmp_path, timeout_ms=100)
    try:
        start(broker)
        assert broker.ended() == 1
        assert f"the node cannot continue: {FILE}: {tmp_path}/rack is empty after 0.1 s" in broker.log()
        assert "Traceback" not in broker.log()
    finally:
        broker.kill()
