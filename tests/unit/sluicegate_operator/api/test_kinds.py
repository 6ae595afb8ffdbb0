"""The table of kinds is the only description of a kind: the other places that a new kind needs are counted here."""

import re
from pathlib import Path

import pytest

from sluicegate_operator.api.kinds import KINDS, CustomKind
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, USER_KINDS
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube

ROOT = Path(__file__).resolve().parents[4]
SOURCES = ROOT / "operator" / "sluicegate_operator"
RIGHTS_OF_THEIR_OWN = {"brokerclusters", "brokerregistrations"}
"""Read one by one, or written: kube.rights has a line more for these."""
UNMISTAKABLE = [kind for kind in KINDS.values() if kind.plural != "topics"]
"""The plural of the other kind is a word of Kafka's as well."""


def test_every_model_has_a_line() -> None:
    assert {kind.model for kind in KINDS.values()} == set(Resource.__subclasses__())
    # The watch gets one of USER_KINDS, and compares it: with two objects for each kind, no event was understood.
    assert any(kind is BROKER_CLUSTER for kind in USER_KINDS)


def test_every_queue_is_marked_by_its_cluster_and_every_named_queue_exists() -> None:
    settings = read_settings({}, None, None, None)
    queues = set(reconcilers(Context(MemoryKube(), settings), settings))  # type: ignore[arg-type]
    assert set(KINDS["BrokerCluster"].queues) == queues
    assert {queue for kind in KINDS.values() for queue in kind.queues} <= queues


@pytest.mark.parametrize("kind", UNMISTAKABLE, ids=lambda kind: kind.name)
def test_a_plural_is_said_by_the_model_alone(kind: CustomKind) -> None:
    word = re.compile(rf"\b{kind.plural}\b")
    said = {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if word.search(path.read_text())}
    of_the_model = Path(kind.model.__module__.replace(".", "/")).relative_to("sluicegate_operator").as_posix()
    rights = {"kube/client/rights.py"} if kind.plural in RIGHTS_OF_THEIR_OWN else set()
    assert said == {f"{of_the_model}.py"} | rights
