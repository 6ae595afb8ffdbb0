"""Which configuration keys there are: those of Apache Kafka's jars, each of them used here or known as not used."""

import subprocess
from pathlib import Path

import pytest

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, Type
from broker_runtime.config.unused import UNUSED_BROKER_KEYS, UNUSED_TOPIC_KEYS
from tests.support.java import java
from tests.support.kafka_libs import kafka_libs

pytestmark = pytest.mark.full

PROGRAM = Path(__file__).with_name("Keys.java")


def test_each_key_of_apache_kafka_is_known() -> None:
    command = [java(), "-cp", f"{kafka_libs()}/*", str(PROGRAM)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    kafkas = {tuple(line.split()) for line in told.splitlines()}
    unused = {
        (owner, name, Type(key.type).name, str(key.mode))
        for owner, keys in (("broker", UNUSED_BROKER_KEYS), ("topic", UNUSED_TOPIC_KEYS))
        for name, key in keys.items()
    }
    used = {("broker", name) for name in BROKER_KEYS} | {("topic", name) for name in TOPIC_KEYS}
    assert len(kafkas) > 300
    assert unused == {key for key in kafkas if key[:2] not in used}
