"""Manifests and brokers accept the same values: the two share no code, so each key is tried on both."""

from collections.abc import Mapping

import pytest

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, ConfigKey
from broker_runtime.errors import ConfigError
from sluicegate_operator.api.configs.config_keys import BROKER_CONFIG, TOPIC_CONFIG
from sluicegate_operator.api.schema.config_values import ConfigValue, WholeNumber

NUMBERS = [-2, -1, 0, 1, 3, 4, 13, 14, 64, 65, 1023, 1024, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30]
WORDS = ["", "abc", "1_000", "1.5", "0x10", "1e3", "true", "False", "yes", "gzip", "GZIP", "LogAppendTime", "delete"]
WORDS += ["fal\u017fe", "d\u0131\u017fabled", "Fetch:0002000", "Fetch:00000002000", "Fetch:2000,"]
WORDS += ["compact,delete", "compact , delete", "compact;delete", "delete,", "+5", "007", "3\n", "\u0663"]
WORDS += [
    " ",
    "\t",
    "\t:a",
    "\u00a0:a",
    "User:",
    "User: ",
    "User:\t",
    "User:\u2003",
    "User:a;User: ",
    "User:\u00e4;User: b ",
]
TEXTS = [*map(str, NUMBERS), *WORDS]
PAIRS = [(key, BROKER_CONFIG, BROKER_KEYS) for key in BROKER_CONFIG] + [
    (key, TOPIC_CONFIG, TOPIC_KEYS) for key in TOPIC_CONFIG
]


def taken(key: ConfigKey, text: str) -> bool:
    try:
        key.parse(text)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("key", "ours", "brokers"), PAIRS, ids=lambda value: value if isinstance(value, str) else "")
def test_nothing_is_accepted_that_the_broker_refuses(
    key: str, ours: Mapping[str, ConfigValue], brokers: Mapping[str, ConfigKey]
) -> None:
    assert [text for text in TEXTS if ours[key].accepts(text) and not taken(brokers[key], text)] == []


@pytest.mark.parametrize(("key", "ours", "brokers"), PAIRS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_number_that_the_broker_takes_is_accepted(
    key: str, ours: Mapping[str, ConfigValue], brokers: Mapping[str, ConfigKey]
) -> None:
    value = ours[key]
    if not isinstance(value, WholeNumber):
        return
    unbounded = brokers[key].validator is None
    refused = [n for n in NUMBERS if taken(brokers[key], str(n)) and not value.accepts(str(n))]
    assert [n for n in refused if not (unbounded and n < 1)] == []


@pytest.mark.parametrize("text", ["true", "FALSE"])
def test_flags_are_read_as_kafka_reads_them(text: str) -> None:
    assert BROKER_CONFIG["delete.topic.enable"].accepts(text)
