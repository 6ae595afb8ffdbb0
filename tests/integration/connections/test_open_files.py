"""A broker with few descriptors limits its partitions to what it can open, and starts again with all of them."""

import re
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerProcess

OPEN_FILES = 700


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The interpreter, in a process that may open few files."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nulimit -n {OPEN_FILES}\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_partitions_are_limited_by_descriptors_and_all_come_back_after_a_crash(python: str) -> None:
    with BrokerProcess(python=python) as broker:
        told = re.search(r"a broker may have (\d+) replicas of partitions: at most 700 files may be open", broker.log())
        assert told is not None, broker.log()
        limit = int(told[1])
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        with pytest.raises(KafkaException, match=rf"{limit + 1} replicas of partitions; at most {limit} are allowed"):
            admin.create_topics([NewTopic("many", limit + 1, 1)])["many"].result(60)
        admin.create_topics([NewTopic("many", limit, 1)])["many"].result(60)
        for _ in range(2):
            assert "kafka_server_replica_manager_offline_replica_count 0" in broker.get("/metrics")[1]
            broker.kill()
            broker.start()
        assert broker.get("/readyz") == (200, "ready\n")
        assert int(broker.metrics()["process_open_fds"]) < OPEN_FILES - 200, "connections have theirs"
