"""The models against the shared table of manifests; the end-to-end suite plays the same table on a real API server."""

import pytest

from sluicegate_operator.api import InvalidManifest, parse_resource, validate
from tests.support.manifests.all_manifests import ALL_BAD, ALL_GOOD
from tests.support.manifests.authority_manifests import AUTHORITY_CHANGES
from tests.support.manifests.bad_manifests import (
    BAD_CHANGES,
    BadChange,
    BadManifest,
    GoodManifest,
    Json,
    cluster,
    quota,
    topic,
)
from tests.support.manifests.external_manifests import BAD_EXTERNAL_CHANGES
from tests.support.manifests.listener_manifests import LISTENER_CHANGES
from tests.support.manifests.pipeline_manifests import PIPELINE_CHANGES
from tests.support.manifests.user_manifests import USER_CHANGES, kafka_user

SAME_NAMES = (
    (topic(), topic(topicName="orders")),
    (kafka_user("alice"), kafka_user("alice", userName="alice")),
)


@pytest.mark.parametrize(
    "case",
    ALL_GOOD,
    ids=lambda case: case.name,
)
def test_a_good_manifest_is_accepted(case: GoodManifest) -> None:
    assert validate(case.manifest) == []


@pytest.mark.parametrize(
    "case",
    ALL_BAD,
    ids=lambda case: case.name,
)
def test_a_bad_manifest_is_refused_with_a_sentence(case: BadManifest) -> None:
    sentences = validate(case.manifest)
    assert len(sentences) == 1
    assert case.field in sentences[0]
    assert case.says in sentences[0]


@pytest.mark.parametrize(
    "case",
    BAD_CHANGES + PIPELINE_CHANGES + BAD_EXTERNAL_CHANGES + LISTENER_CHANGES + USER_CHANGES + AUTHORITY_CHANGES,
    ids=lambda case: case.name,
)
def test_a_change_that_cannot_be_made_is_refused(case: BadChange) -> None:
    assert validate(case.after) == []
    sentences = validate(case.after, parse_resource(case.before))
    assert len(sentences) == 1
    assert case.says in sentences[0]


@pytest.mark.parametrize(("before", "after"), SAME_NAMES)
def test_a_name_in_the_spec_that_is_the_objects_own_may_be_written_out(before: Json, after: Json) -> None:
    assert validate(after, parse_resource(before)) == []
    assert validate(before, parse_resource(after)) == []


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidManifest) as refused:
        parse_resource(quota({"ip": "nobody", "broker": {}}))
    assert len(refused.value.problems) == 2


@pytest.mark.parametrize(
    ("document", "field"), [({}, "apiVersion"), ({"apiVersion": "sluicegate.dev/v1alpha1", "kind": "Pod"}, "kind")]
)
def test_a_stranger_is_told_what_is_known(document: dict[str, str], field: str) -> None:
    assert validate(document)[0].startswith(f"{field}: must be")


@pytest.mark.parametrize(
    ("asked", "size", "refused"),
    [("1Gi", "1Gi", False), ("1Gi", "1500Mi", False), ("2Gi", "1Gi", True), (None, "1Gi", True), (None, "3Gi", False)],
)
def test_a_size_that_no_volume_was_asked_for_can_be_taken_back(asked: str | None, size: str, refused: bool) -> None:
    def shop(size: str) -> dict[str, object]:
        return cluster(brokers={"replicas": 1, "storage": {"size": size}})

    before = parse_resource(shop("2Gi") | {"status": {"volumes": {"brokers": asked}} if asked else {}})
    assert bool(validate(shop(size), before)) is refused
