"""The configuration keys: those of Apache Kafka's jars, each of them used here or known as unused."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, ConfigKey, Type
from broker_runtime.config.declaring.unused import unused_keys
from broker_runtime.config.keys.client_metrics import CLIENT_METRICS_KEYS
from broker_runtime.config.keys.group_resource import GROUP_KEYS
from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs

pytestmark = pytest.mark.full

PROGRAM = Path(__file__).with_name("Keys.java")


def test_each_key_of_apache_kafka_is_known() -> None:
    command = [java(), "-cp", f"{kafka_libs()}/*", str(PROGRAM)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    kafkas = {tuple(line.split()) for line in told.splitlines()}
    named = {"group": GROUP_KEYS, "client-metrics": CLIENT_METRICS_KEYS}
    unused = {"broker": unused_keys("broker"), "topic": unused_keys("topic"), "group": unused_keys("group")}
    used = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, **named}
    assert len(kafkas) > 300
    assert lines(named) <= kafkas, "brokers have defaults and types of their own, groups and client metrics have not"
    assert lines(unused) == {key for key in kafkas if key[1] not in used[key[0]]}


def lines(keys: Mapping[str, Mapping[str, ConfigKey]]) -> set[tuple[str, ...]]:
    """Return the lines as the program prints them."""
    return {
        (owner, name, Type(key.type).name, str(key.mode))
        for owner, named in keys.items()
        for name, key in named.items()
    }
