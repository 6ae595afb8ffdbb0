"""A client without permissions, and the table of checks: each API answers with the codes of the table, or hides."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker_runtime.apis.request.authorization.access_table import CHECKS, code_of
from broker_runtime.wire.versions import api_keys
from tests.integration.differential.play import play
from tests.integration.differential.scripts import access
from tests.integration.differential.scripts.access_requests import KNOWN, MISSING
from tests.support.processes.broker_process import BrokerProcess

UNSEEN = {"ListGroups", "Metadata", "DescribeTopicPartitions", "DescribeCluster", "DescribeLogDirs"}
"""APIs that leave out what a client may not see, in some or all versions."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=access.PROPERTIES) as broker:
        play(access.close, broker, 1)
        yield broker


@pytest.mark.parametrize("sequence", [access.topics_denied, access.groups_denied, access.cluster_denied])
def test_a_client_without_permissions_gets_the_codes_of_the_table(guarded: BrokerProcess, sequence: Any) -> None:
    answers = play(sequence, guarded, 1)
    keys = api_keys()
    assert answers
    for step, answer in answers.items():
        name = "".join(part.title() for part in step.split(": ")[1].split(" ")[0].split("_"))
        expected = {code_of(keys[name], check.resource).name.lower() for check in CHECKS[keys[name]]}
        found = set(codes(answer))
        if "unknown id" in step:
            assert found <= {"none", "unknown_topic_id"}, step
        else:
            assert found & expected or name in UNSEEN, step
            assert found <= expected | {"none"}, step
        assert access_names(answer) <= {KNOWN, MISSING, "created", "fresh"}, step


def codes(answer: Any) -> Iterator[str]:
    if isinstance(answer, dict):
        if "error_code" in answer:
            yield answer["error_code"]
        answer = list(answer.values())
    if isinstance(answer, list):
        for each in answer:
            yield from codes(each)


def access_names(answer: Any) -> set[str]:
    """The topic names in an answer: only those that the client has named."""
    if isinstance(answer, dict):
        here = {answer["name"]} if isinstance(answer.get("name"), str) and answer["name"] else set()
        return here.union(*map(access_names, answer.values()))
    return set().union(*map(access_names, answer)) if isinstance(answer, list) else set()


@pytest.mark.parametrize(
    "sequence",
    [access.topic_permissions, access.group_permissions, access.cluster_permissions, access.patterns_and_denials],
)
def test_single_permissions_allow_something_and_not_everything(guarded: BrokerProcess, sequence: Any) -> None:
    found = {code for answer in play(sequence, guarded, 1).values() for code in codes(answer)}
    assert "none" in found
    assert any(code.endswith("_authorization_failed") for code in found)
