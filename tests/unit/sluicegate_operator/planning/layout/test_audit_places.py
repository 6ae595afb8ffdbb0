"""Places for segments and results: the older object keeps its place, over all clusters and namespaces."""

from typing import Any

import pytest

from sluicegate_operator.api import AuditPipeline, BrokerCluster, parse_resource
from sluicegate_operator.planning.layout.audit_places import (
    Lander,
    Results,
    results_of,
    why_landing_taken,
    why_results_in_landing,
    why_results_taken,
)
from sluicegate_operator.planning.layout.store_places import canonical_uri, store_place
from tests.support.manifests.bad_manifests import Json
from tests.support.manifests.bad_manifests import cluster as cluster_manifest
from tests.support.manifests.pipeline_manifests import pipeline as pipeline_manifest


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
def test_the_older_of_two_clusters_with_one_place_lands_there(uri: str, taken: bool) -> None:
    younger = landed("bank", {"uri": uri}, 11, "retail")
    older = landed("bank", {"uri": uri}, 9, "retail")
    why = why_landing_taken(younger, [younger, SHOP], [])
    assert ("BrokerCluster default/shop is older and lands its audit log in s3://audit/shop," in why) is taken
    assert why_landing_taken(older, [older, SHOP], []) == ""
    assert ("BrokerCluster retail/bank is older" in why_landing_taken(SHOP, [older, SHOP], [])) is taken


SHOPS_LANDER, BANKS_LANDER = Lander("default", "shop", "s3://audit/shop"), Lander("retail", "bank", "s3://audit/shop/")


def test_a_cluster_that_lands_in_a_place_keeps_it_from_an_older_one() -> None:
    older = landed("bank", {"uri": "s3://audit/shop"}, 9, "retail")
    both = [older, SHOP]
    assert why_landing_taken(SHOP, both, [], [SHOPS_LANDER]) == ""
    why = why_landing_taken(older, both, [], [SHOPS_LANDER])
    assert "pods of BrokerCluster default/shop land their audit log in s3://audit/shop, and each" in why
    assert "choose another uri, or wait until these pods are deleted or land elsewhere" in why


def test_the_older_of_two_clusters_that_share_a_place_keeps_it() -> None:
    older = landed("bank", {"uri": "s3://audit/shop"}, 9, "retail")
    landers = [SHOPS_LANDER, BANKS_LANDER]
    assert why_landing_taken(older, [older, SHOP], [], landers) == ""
    assert "BrokerCluster retail/bank is older" in why_landing_taken(SHOP, [older, SHOP], [], landers)


def test_a_wider_place_is_not_the_one_where_the_cluster_lands() -> None:
    wider = landed("shop", {"uri": "s3://audit"}, 9)
    assert "BrokerCluster retail/bank" in why_landing_taken(wider, [wider], [], [SHOPS_LANDER, BANKS_LANDER])


def test_results_are_not_put_where_any_cluster_lands() -> None:
    bank, of_bank = landed("bank", {"claimName": "audit"}, 10), {"uri": "s3://audit/shop/answers"}
    oldest = answers("daily", of_bank, 1, of="bank")
    assert why_results_in_landing(oldest, bank, [bank]) == ""
    assert "because the segments are in s3://audit/shop:" in why_results_in_landing(
        oldest, bank, [bank], None, [SHOPS_LANDER]
    )
    assert why_landing_taken(SHOP, [bank, SHOP], results_of([oldest]), [SHOPS_LANDER]) == ""


@pytest.mark.parametrize("spec", ["text", {"results": "text"}, {"results": {"uri": 7}}, {"results": {"uri": "x"}}, {}])
def test_an_unreadable_pipeline_without_a_place_takes_none(spec: object) -> None:
    assert Results.of_unreadable({"metadata": {"name": "daily"}, "spec": spec}) is None


def test_the_place_of_an_unreadable_pipeline_is_taken() -> None:
    body = pipeline_manifest("daily", results={"uri": "s3://answers/all"}, executors="many")
    found = Results.of_unreadable(body | {"metadata": {"name": "daily", "creationTimestamp": "2026-01-01T00:00:09Z"}})
    assert found is not None
    second = answers("second", {"uri": "s3://answers/all"}, 10)
    assert why_results_taken(second, [found]).startswith("AuditPipeline /daily is older and has the same place")


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
        "results would be read as segments, because the older BrokerCluster shop lands its audit log in s3://audit/"
    )
    assert why_landing_taken(SHOP, [bank, SHOP], results_of([younger])) == ""
    assert why_results_in_landing(older, bank, [bank, SHOP]) == ""
    assert "AuditPipeline daily is older and has its results in s3://audit/shop/answers" in why_landing_taken(
        SHOP, [bank, SHOP], results_of([older])
    )


def test_results_are_never_put_among_the_segments_of_their_own_cluster() -> None:
    older = answers("daily", {"uri": "s3://audit/shop/answers"}, 9)
    assert "s3://audit/shop" in why_results_in_landing(older, SHOP, [])
    assert why_landing_taken(SHOP, [SHOP], results_of([older])) == ""


def test_a_cluster_may_land_below_results() -> None:
    above = answers("daily", {"uri": "s3://audit"}, 9, of="bank")
    assert why_results_in_landing(above, SHOP, [SHOP]) == why_landing_taken(SHOP, [SHOP], results_of([above])) == ""


def test_a_cluster_and_a_pipeline_of_equal_age_and_name_are_not_both_rejected() -> None:
    same = answers("shop", {"uri": "s3://audit/shop"}, 10, of="bank")
    bank = landed("bank", {"claimName": "audit"}, 10)
    assert why_results_in_landing(same, bank, [bank, SHOP]) != ""
    assert why_landing_taken(SHOP, [bank, SHOP], results_of([same])) == ""


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
def test_the_older_of_two_pipelines_with_one_place_writes_there(results: Json, says: str) -> None:
    daily = answers("daily", {"uri": "s3://answers/all"}, 10)
    second = answers("second", results, 11, "retail", of="bank")
    assert why_results_taken(second, results_of([daily, second])).startswith(says)
    assert bool(why_results_taken(second, results_of([daily, second]))) is bool(says)
    assert why_results_taken(daily, results_of([daily, second])) == ""


@pytest.mark.parametrize(
    "uri",
    ["s3://audit/shop", "s3://audit/a%20b?region=a%20b", "s3://audit/a%3Fb%23c%25?x=%26%3D%2B%25", "s3://audit/%C3%A4"],
)
def test_a_canonical_uri_names_the_same_place(uri: str) -> None:
    assert canonical_uri(canonical_uri(uri)) == canonical_uri(uri)
    assert store_place(canonical_uri(uri)) == store_place(uri)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("endpoint_override=https://h", "endpoint_override=https://h:443", True),
        ("endpoint_override=http://h:80/", "endpoint_override=h&scheme=http", True),
        ("endpoint_override=h:443", "endpoint_override=h", True),
        ("endpoint_override=http://h:443", "endpoint_override=http://h", False),
        ("endpoint_override=h:8443", "endpoint_override=h", False),
        ("endpoint_override=s3.eu-west-1.amazonaws.com", "region=eu-west-1", True),
        ("endpoint_override=https://s3.dualstack.eu-west-1.amazonaws.com:443", "", True),
        ("endpoint_override=s3.amazonaws.com.example.org", "", False),
    ],
)
def test_default_ports_and_the_endpoints_of_aws_name_the_same_store(one: str, other: str, same: bool) -> None:
    places = [store_place(f"s3://audit/shop?{options}") for options in (one, other)]
    assert (places[0] == places[1]) is same
