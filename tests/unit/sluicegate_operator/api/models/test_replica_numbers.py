"""Inconsistent numbers of replicas: files with them are refused, and stored objects stay readable."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.api import load_manifests, parse_resource
from sluicegate_operator.api.manifests import read_stored
from tests.support.manifests.bad_manifests import cluster, external, topic

BROKERS = "spec.brokers.replicas is 3: a broker can have only one replica of a partition"


def sentences(folder: Path, *documents: dict[str, Any]) -> list[str]:
    path = folder / "objects.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    return [f"{error.document}: {error.field}: {error.sentence}" for error in load_manifests([path]).errors]


@pytest.mark.parametrize(
    "key", ["default.replication.factor", "offsets.topic.replication.factor", "min.insync.replicas"]
)
def test_a_cluster_configured_with_more_replicas_than_brokers_is_rejected(tmp_path: Path, key: str) -> None:
    assert sentences(tmp_path, cluster(config={key: "5"})) == [
        f"0: spec.config: {key} is 5, and {BROKERS}; set {key} to 3 or less, or run 5 brokers"
    ]
    assert sentences(tmp_path, cluster(config={key: "3"})) == []


def test_more_replicas_in_sync_than_topics_have_by_default_are_refused(tmp_path: Path) -> None:
    for make in (cluster, external):
        config = {"min.insync.replicas": "3", "default.replication.factor": "2"}
        assert sentences(tmp_path, make(config=config)) == [
            "0: spec.config: min.insync.replicas is 3, and default.replication.factor is 2: a topic with the"
            " default number of replicas never has so many in sync; set min.insync.replicas to 2 or less, or"
            " default.replication.factor to 3"
        ]


def test_each_number_may_be_given_alone_and_an_external_cluster_has_brokers_that_no_file_counts(tmp_path: Path) -> None:
    assert sentences(tmp_path, cluster(config={"min.insync.replicas": "2"})) == []
    assert sentences(tmp_path, external(config={"default.replication.factor": "50"})) == []


def test_a_topic_with_more_replicas_than_its_clusters_brokers_is_rejected_if_both_are_in_files(
    tmp_path: Path,
) -> None:
    assert sentences(tmp_path, cluster(), topic(replicas=4)) == [
        "1: spec.replicas: is 4, and BrokerCluster shop has 3 brokers: a broker can have only one replica of a"
        " partition; set replicas to 3 or less, or run 4 brokers"
    ]
    assert sentences(tmp_path, cluster(name="other"), topic(replicas=4)) == []
    assert sentences(tmp_path, cluster(), topic(replicas=3)) == []


def test_a_topic_that_asks_for_more_replicas_in_sync_than_it_has_is_refused(tmp_path: Path) -> None:
    assert sentences(tmp_path, topic(replicas=2, config={"min.insync.replicas": "3"})) == [
        "0: spec.config: min.insync.replicas is 3, and spec.replicas is 2: so many replicas are never in sync;"
        " set min.insync.replicas to 2 or less, or replicas to 3 or more"
    ]


def test_a_topic_without_a_number_of_replicas_contradicts_nothing(tmp_path: Path) -> None:
    assert sentences(tmp_path, cluster(), topic(config={"min.insync.replicas": "3"})) == []


def test_the_api_server_takes_such_objects_so_what_is_stored_can_be_read() -> None:
    for document in (cluster(config={"default.replication.factor": "5"}), topic(config={"min.insync.replicas": "3"})):
        assert read_stored(document) == parse_resource(document)
