"""Places for segments and results: the older object keeps its place, over all clusters and namespaces."""

from typing import Any

import pytest

from sluicegate_operator.api import AuditPipeline, BrokerCluster, parse_resource
from sluicegate_operator.planning.audit_places import why_landing_taken, why_results_in_landing, why_results_taken
from sluicegate_operator.planning.store_places import canonical_uri, store_place
from tests.support.bad_manifests import Json
from tests.support.bad_manifests import cluster as cluster_manifest
from tests.support.pipeline_manifests import pipeline as pipeline_manifest


def _of(document: Json, namespace: str, second: int) -> Any:
    born = {"namespace": namespace, "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    return parse_resource(document | {"metadata": document["metadata"] | born})


def landed(name: str, place: Json, second: int, namespace: str = "default") -> BrokerCluster:
    found: BrokerCluster = _of(cluster_manifest(name, audit={"landing": place}), namespace, second)
    return found


def answers(name: str, results: Json, second: int, namespace: str = "default", of: str = "shop") -> AuditPipeline:
    found: AuditPipeline = _of(pipeline_manifest(name, results=results, clusterRef={"name": of}), namespace, second)
    return found


SHOP = landed("shop", {"uri": "s3://audit/shop?region=eu-west-1"}, 10)


@pytest.mark.parametrize(
    ("uri", "taken"),
    [
        ("s3://audit/shop", True),
        ("s3://audit/sh%6Fp/?region=us-east-1", True),
        ("s3://audit/shop/inner", True),
        ("s3://audit", True),
        ("s3://audit/shop2", False),
        ("s3://other/shop", False),
        ("s3://audit/shop?endpoint_override=http://store.example:9000", False),
    ],
)
def test_of_two_clusters_with_one_place_the_older_lands_there(uri: str, taken: bool) -> None:
    younger = landed("bank", {"uri": uri}, 11, "retail")
    older = landed("bank", {"uri": uri}, 9, "retail")
    why = why_landing_taken(younger, [younger, SHOP], [])
    assert ("BrokerCluster default/shop is older and lands its audit log in s3://audit/shop," in why) is taken
    assert why_landing_taken(older, [older, SHOP], []) == ""
    assert ("BrokerCluster retail/bank is older" in why_landing_taken(SHOP, [older, SHOP], [])) is taken


def test_two_clusters_share_a_claim() -> None:
    shop, bank = (landed(name, {"claimName": "audit"}, 10) for name in ("shop", "bank"))
    assert why_landing_taken(shop, [shop, bank], []) == why_landing_taken(bank, [shop, bank], []) == ""


def test_clusters_of_one_second_are_ordered_by_name() -> None:
    bank = landed("bank", {"uri": "s3://audit/shop"}, 10)
    assert why_landing_taken(bank, [SHOP, bank], []) == ""
    assert "BrokerCluster bank is older" in why_landing_taken(SHOP, [SHOP, bank], [])


def test_results_are_not_put_among_the_segments_of_another_cluster() -> None:
    bank = landed("bank", {"uri": "s3://audit/bank"}, 10)
    inside = {"uri": "s3://audit/shop/answers"}
    younger, older = answers("daily", inside, 11, of="bank"), answers("daily", inside, 9, of="bank")
    why = why_results_in_landing(younger, bank, [bank, SHOP])
    assert why.startswith(
        "results lie among the segments that BrokerCluster shop, which is older, lands in s3://audit/"
    )
    assert why_landing_taken(SHOP, [bank, SHOP], [younger]) == ""
    assert why_results_in_landing(older, bank, [bank, SHOP]) == ""
    assert "AuditPipeline daily is older and has its results in s3://audit/shop/answers" in why_landing_taken(
        SHOP, [bank, SHOP], [older]
    )


def test_results_are_never_put_among_the_segments_of_their_own_cluster() -> None:
    older = answers("daily", {"uri": "s3://audit/shop/answers"}, 9)
    assert "s3://audit/shop" in why_results_in_landing(older, SHOP, [])
    assert why_landing_taken(SHOP, [SHOP], [older]) == ""


def test_a_cluster_may_land_below_results() -> None:
    above = answers("daily", {"uri": "s3://audit"}, 9, of="bank")
    assert why_results_in_landing(above, SHOP, [SHOP]) == why_landing_taken(SHOP, [SHOP], [above]) == ""


def test_a_cluster_and_a_pipeline_of_one_second_and_name_are_not_both_told_to_go() -> None:
    same = answers("shop", {"uri": "s3://audit/shop"}, 10, of="bank")
    bank = landed("bank", {"claimName": "audit"}, 10)
    assert why_results_in_landing(same, bank, [bank, SHOP]) != ""
    assert why_landing_taken(SHOP, [bank, SHOP], [same]) == ""


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ({"uri": "s3://answers/all/"}, "AuditPipeline default/daily is older and has the same place for results"),
        (
            {"uri": "s3://answers/all/day"},
            "AuditPipeline default/daily is older and has its results in s3://answers/all",
        ),
        ({"uri": "s3://answers"}, "AuditPipeline default/daily is older and has its results in s3://answers/all"),
        ({"uri": "s3://answers/all2"}, ""),
        ({"claimName": "answers"}, ""),
    ],
)
def test_of_two_pipelines_with_one_place_the_older_writes_there(results: Json, says: str) -> None:
    daily = answers("daily", {"uri": "s3://answers/all"}, 10)
    second = answers("second", results, 11, "retail", of="bank")
    assert why_results_taken(second, [daily, second]).startswith(says)
    assert bool(why_results_taken(second, [daily, second])) is bool(says)
    assert why_results_taken(daily, [daily, second]) == ""


@pytest.mark.parametrize(
    "uri",
    ["s3://audit/shop", "s3://audit/a%20b?region=a%20b", "s3://audit/a%3Fb%23c%25?x=%26%3D%2B%25", "s3://audit/%C3%A4"],
)
def test_a_canonical_uri_names_the_same_place(uri: str) -> None:
    assert canonical_uri(canonical_uri(uri)) == canonical_uri(uri)
    assert store_place(canonical_uri(uri)) == store_place(uri)
