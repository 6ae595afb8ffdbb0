"""Levels of this process's loggers, as clients read and change them."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from broker_runtime.apis.configs.broker_loggers import alter_loggers, describe_loggers
from broker_runtime.apis.configs.describe_configs import API
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.wire.messages import decode_request, encode_request_body
from broker_runtime.wire.versions import INCREMENTAL_ALTER_CONFIGS
from tests.support.worlds.controller import ControllerInMemory

ME = 1
SET, DELETE, APPEND = 0, 1, 2
PARENT, CHILD = "broker_runtime.tests.loggers", "broker_runtime.tests.loggers.child"


@pytest.fixture
def loggers() -> Iterator[None]:
    before = logging.root.level
    logging.getLogger(CHILD)
    yield
    for name in (PARENT, CHILD):
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.root.setLevel(before)


def alter(*changes: tuple[str, int, str | None], node: str = "1", validate_only: bool = False) -> None:
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
    resource = {"resource_type": 8, "resource_name": node, "configs": configs}
    content: dict[str, Any] = {"resources": [resource], "validate_only": validate_only}
    body = memoryview(encode_request_body(INCREMENTAL_ALTER_CONFIGS, 1, content))
    (read,) = decode_request(INCREMENTAL_ALTER_CONFIGS, 1, body).resources
    alter_loggers(read, ME, validate_only=validate_only)


def levels(*names: str) -> dict[object, object]:
    return {entry["name"]: entry["value"] for entry in describe_loggers("1", {*names}, ME)}


def test_a_level_that_is_set_is_in_force_and_that_of_a_package_is_its_modules(loggers: None) -> None:
    root = levels("root")["root"]
    assert levels(PARENT, CHILD) == {PARENT: root, CHILD: root}
    alter((PARENT, SET, "DEBUG"))
    assert levels(PARENT, CHILD) == {PARENT: "DEBUG", CHILD: "DEBUG"}
    assert logging.getLogger(CHILD).isEnabledFor(logging.DEBUG)
    alter((CHILD, SET, "FATAL"), (PARENT, DELETE, ""))
    assert levels(PARENT, CHILD) == {PARENT: root, CHILD: "FATAL"}
    assert not logging.getLogger(CHILD).isEnabledFor(logging.ERROR)
    alter((PARENT, SET, "TRACE"))
    assert levels(PARENT) == {PARENT: "TRACE"}
    assert logging.getLogger(PARENT).isEnabledFor(5)


def test_the_level_of_the_root_logger_is_that_of_all_others(loggers: None) -> None:
    alter(("root", SET, "ERROR"))
    assert levels("root", CHILD) == {"root": "ERROR", CHILD: "ERROR"}
    assert not logging.getLogger(CHILD).isEnabledFor(logging.WARNING)


def test_a_level_between_two_of_kafkas_is_shown_as_the_lower(loggers: None) -> None:
    logging.getLogger(CHILD).setLevel(25)
    assert levels(CHILD) == {CHILD: "INFO"}
    logging.getLogger(CHILD).setLevel(1)
    assert levels(CHILD) == {CHILD: "TRACE"}


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ([("no.such.logger", SET, "INFO")], ErrorCode.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        ([(CHILD, SET, "LOUD")], ErrorCode.INVALID_CONFIG, "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WA"),
        ([(CHILD, SET, "debug")], ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ([(CHILD, SET, None)], ErrorCode.INVALID_REQUEST, f"Null value not supported for : {CHILD}"),
        ([("root", DELETE, None)], ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
        ([(CHILD, APPEND, "INFO")], ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER"),
        ([(CHILD, 9, "INFO")], ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        ([(CHILD, SET, "INFO"), (CHILD, DELETE, "")], ErrorCode.INVALID_REQUEST, "duplicate config keys"),
        ([(PARENT, SET, "DEBUG"), (CHILD, SET, "LOUD")], ErrorCode.INVALID_CONFIG, "not a supported log level"),
    ],
)
def test_changes_that_are_refused_change_nothing(
    loggers: None, changes: list[tuple[str, int, str | None]], code: ErrorCode, why: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        alter(*changes)
    assert refused.value.code == code
    assert why in (refused.value.message or "")
    assert logging.getLogger(PARENT).level == logging.getLogger(CHILD).level == logging.NOTSET


def test_a_change_that_is_only_checked_changes_nothing(loggers: None) -> None:
    alter((CHILD, SET, "DEBUG"), validate_only=True)
    assert logging.getLogger(CHILD).level == logging.NOTSET


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("2", "Unexpected node id. Expected 1, but received 2"),
        ("x", "an integer"),
        (" 1", "an integer"),
        ("01", "an integer"),
        ("+1", "an integer"),
        ("", "an int"),
    ],
)
def test_loggers_of_other_nodes_are_refused(loggers: None, node: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why):
        alter((CHILD, SET, "DEBUG"), node=node)
    with pytest.raises(KafkaError, match=r"Unexpected broker id, expected 1|must be an integer|must not be empty"):
        describe_loggers(node, None, ME)


async def test_all_loggers_are_described_with_root_first(loggers: None) -> None:
    async with ControllerInMemory() as node:
        resource = {"resource_type": 8, "resource_name": "1", "configuration_keys": None}
        asked = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
        (answer,) = (await node.ask(API, 4, asked))["results"]
        names = [entry["name"] for entry in answer["configs"]]
        assert names[0] == "root"
        assert names[1:] == sorted(names[1:])
        assert {PARENT, CHILD, "broker_runtime"} <= set(names)
        assert {(e["config_source"], e["read_only"], e["is_sensitive"]) for e in answer["configs"]} == {
            (6, False, False)
        }
