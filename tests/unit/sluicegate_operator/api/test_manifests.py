"""Manifests from files: several documents, folders, and every way in which a file can be wrong."""

from pathlib import Path

import pytest

from sluicegate_operator.api import (
    AuditPipeline,
    BrokerCluster,
    ConnectionQuota,
    ObserverPlugin,
    Topic,
    load_manifests,
    parse_resource,
)
from tests.support.manifests.bad_manifests import GOOD, cluster
from tests.support.manifests.external_manifests import GOOD_EXTERNAL
from tests.support.manifests.listener_manifests import GOOD_LISTENERS
from tests.support.manifests.observer_manifests import GOOD_OBSERVERS
from tests.support.manifests.pipeline_manifests import GOOD_PIPELINES
from tests.support.manifests.tag_manifests import GOOD_TAGS

ROOT = Path(__file__).resolve().parents[4]

HEAD = "apiVersion: sluicegate.dev/v1alpha1\nkind: Topic\n"
TOPIC = HEAD + "metadata: {name: orders}\nspec: {clusterRef: {name: shop}, partitions: 6}\n"


def written(folder: Path, text: str, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_quickstart_is_one_cluster_one_listener_one_quota_and_a_topic() -> None:
    manifests = load_manifests([ROOT / "examples" / "quickstart"])
    assert manifests.errors == ()
    assert [resource.name for resource in manifests.resources] == [
        "shop",
        "shop-external",
        "shop-external-rate",
        "orders",
    ]
    assert manifests.of_kind(ConnectionQuota)[0].spec.max_connection_creation_rate == 50
    assert manifests.of_kind(Topic)[0].spec.deletion_policy == "Retain"


def test_only_what_is_for_laptops_names_an_address_of_this_machine() -> None:
    (quota,) = load_manifests([ROOT / "examples" / "laptop"]).of_kind(ConnectionQuota)
    assert quota.spec.target.ip == "127.0.1.7"
    others = [folder for folder in (ROOT / "examples").iterdir() if folder.name != "laptop"]
    assert len(others) > 1
    assert [
        q.name for q in load_manifests(others).of_kind(ConnectionQuota) if (q.spec.target.ip or "").startswith("127.")
    ] == []


def test_the_highly_available_example_survives_the_loss_of_any_one_node() -> None:
    manifests = load_manifests([ROOT / "examples" / "high-availability"])
    assert manifests.errors == ()
    (made,) = manifests.clusters
    assert made.spec.shares_journal
    min_isr = int((made.spec.config or {})["min.insync.replicas"])
    assert all((topic.spec.replicas or 0) > min_isr > 1 for topic in manifests.of_kind(Topic))


def test_the_audited_example_lands_what_its_brokers_write() -> None:
    manifests = load_manifests([ROOT / "examples" / "audited"])
    assert manifests.errors == ()
    (made,) = manifests.clusters
    assert made.spec.landing is not None
    assert [observer.spec.built_in for observer in manifests.of_kind(ObserverPlugin)] == ["audit-log"]
    assert [pipeline.spec.cluster_ref.name for pipeline in manifests.of_kind(AuditPipeline)] == [made.name]


def test_one_bad_document_does_not_hide_the_good_ones(tmp_path: Path) -> None:
    path = written(tmp_path, TOPIC + "---\n" + TOPIC.replace("partitions: 6", "partitions: 0") + "---\n---\n")
    manifests = load_manifests([path])
    assert [topic.name for topic in manifests.of_kind(Topic)] == ["orders"]
    (error,) = manifests.errors
    assert str(error) == f"{path}, document 2: spec.partitions: must be at least 1"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: [", "cannot be read"),
        ("just words", "must be a mapping with apiVersion and kind"),
        (" \n", "is empty; write its manifests into it again, or remove the file to delete its objects"),
        (TOPIC + "spec: {}\n", "the key spec occurs twice; remove one of them (line 5, column 1)"),
        (TOPIC + "---\n" + TOPIC, "give each object its own name"),
        (TOPIC.replace("partitions", "partition"), "is not a field of this kind; remove it or check its spelling"),
        (TOPIC.replace("partitions: 6", "partitions: six"), "must be a whole number without quotes"),
        (HEAD + "metadata: {name: orders}\n", "is missing; add it"),
        (
            "apiVersion: sluicegate.dev/v1alpha1\nkind: BrokerRegistration\nmetadata: {name: shop-1}\n"
            "spec: {clusterRef: {name: shop}, brokerId: 1}\n",
            "is written only by the operator; remove it from the file",
        ),
    ],
)
def test_a_bad_file_is_told_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    errors = load_manifests([written(tmp_path, text)]).errors
    assert sentence in " ".join(str(error) for error in errors)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("topicName: 5", "spec.topicName: must be a string; put quotes around it"),
        ("topicName: {en: orders}", "spec.topicName: must be a string, not a mapping; remove the fields below it"),
        ("topicName: [orders]", "spec.topicName: must be a string, not a list; write one value"),
        ("config: {retention.ms: {ms: 5}}", "must be a string, not a mapping; remove the fields below it"),
        ("replicas: '3'", "spec.replicas: must be a whole number without quotes"),
        ("replicas: 1.5", "spec.replicas: must be a whole number"),
        ("replicas: {min: 3}", "spec.replicas: must be a whole number, not a mapping; remove the fields below it"),
        ("config: [retention.ms]", "spec.config: must be a mapping"),
    ],
)
def test_a_value_of_another_type_is_told_as_what_it_is(tmp_path: Path, value: str, sentence: str) -> None:
    text = TOPIC.replace("partitions: 6", f"partitions: 6, {value}")
    (error,) = load_manifests([written(tmp_path, text)]).errors
    assert str(error).endswith(sentence)


def test_missing_and_binary_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    errors = load_manifests([tmp_path / "nowhere.yaml", tmp_path / "b.yaml"]).errors
    assert errors[0].sentence == "does not exist; name an existing file or folder"
    assert "cannot be read" in errors[1].sentence


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (error,) = load_manifests([written(tmp_path, TOPIC + "#" * (4 << 20))]).errors
    assert "split it" in error.sentence


def test_a_folder_is_read_in_order_of_name_and_other_files_are_left(tmp_path: Path) -> None:
    written(tmp_path, TOPIC.replace("orders", "second"), "b.yml")
    written(tmp_path, TOPIC.replace("orders", "first"), "a.yaml")
    written(tmp_path, "not a manifest", "README.md")
    assert [topic.name for topic in load_manifests([tmp_path]).of_kind(Topic)] == ["first", "second"]


def test_a_list_of_kubectl_get_is_taken_apart(tmp_path: Path) -> None:
    items = "".join(f"- {line}\n" if not at else f"  {line}\n" for at, line in enumerate(TOPIC.splitlines()))
    manifests = load_manifests([written(tmp_path, "apiVersion: v1\nkind: List\nitems:\n" + items)])
    assert [topic.name for topic in manifests.of_kind(Topic)] == ["orders"]


def test_dates_stay_text_and_metadata_that_nobody_needs_is_left(tmp_path: Path) -> None:
    text = TOPIC.replace("{name: orders}", "{name: orders, annotations: {since: 2026-01-01}, managedFields: []}")
    (topic,) = load_manifests([written(tmp_path, text)]).of_kind(Topic)
    assert topic.metadata.annotations == {"since": "2026-01-01"}


@pytest.mark.parametrize(
    "case",
    GOOD + GOOD_LISTENERS + GOOD_OBSERVERS + GOOD_PIPELINES + GOOD_TAGS + GOOD_EXTERNAL,
    ids=lambda case: case.name,
)
def test_what_was_read_can_be_written_and_read_again(case: object) -> None:
    resource = parse_resource(case.manifest)  # type: ignore[attr-defined]
    again = parse_resource(resource.model_dump(mode="json", by_alias=True))
    assert again == resource


def test_models_cannot_be_changed() -> None:
    resource = parse_resource(cluster())
    assert isinstance(resource, BrokerCluster)
    with pytest.raises(ValueError, match="frozen"):
        resource.spec.paused = True
