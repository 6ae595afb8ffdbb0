"""Every manifest that the operator makes, beside a file that a person has read.

`PYTHONPATH=.:operator python tests/unit/sluicegate_operator/resources/test_golden.py` writes the files anew; read the
difference before it is committed.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.children import cluster_children, listener_children, network_policies
from tests.support.bad_manifests import cluster, listener

GOLDEN = Path(__file__).parent / "golden"
UID = "6264ce5a-f913-40b0-85d0-94474e8cc1d2"

FULL = {
    "brokers": {
        "replicas": 5,
        "storage": {"size": "1Ti", "storageClassName": "fast"},
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
        "rack": {"topologyKey": "topology.kubernetes.io/zone"},
    },
    "controllers": {
        "replicas": 3,
        "storage": {"size": "2Gi", "storageClassName": "safe"},
        "resources": {"requests": {"memory": "64Mi"}},
    },
    "image": "registry.example.org/sluicegate:0.2.0",
    "config": {"num.partitions": "3", "log.retention.ms": "86400000"},
    "audit": {
        "landing": {
            "uri": "s3://audit/shop?region=eu-west-1",
            "secretName": "audit-s3",
            "retentionDays": 90,
            "quota": "1Ti",
            "resources": {"limits": {"memory": "1Gi"}},
        }
    },
    "connectionQuota": {"strategy": "token-bucket", "ipAction": "drop", "windowNum": 5, "windowSizeSeconds": 2},
}


def stored(document: dict[str, Any]) -> dict[str, Any]:
    """As the API server has it."""
    return document | {"metadata": document["metadata"] | {"namespace": "retail", "uid": UID}}


def children(listeners: list[dict[str, Any]], **spec: Any) -> list[dict[str, Any]]:
    of = parse_resource(stored(cluster(**spec)))
    assert isinstance(of, BrokerCluster)
    parsed = [parse_resource(stored(document)) for document in listeners]
    own = [one for one in parsed if isinstance(one, BrokerListener)]
    return cluster_children(of, own) + listener_children(of, own) + network_policies(of, own, "sluicegate-system")


PUBLIC = {"name": "PUBLIC_ACCESS_OF_PARTNERS", "port": 9095, "exposure": "LoadBalancer"}


def public_listener() -> dict[str, Any]:
    document = listener("shop-public")
    return document | {"spec": document["spec"] | PUBLIC}


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "least": ([], {}),
    "full": ([listener(), public_listener()], FULL),
}


def manifests(case: str) -> dict[str, str]:
    """File name -> text; one file for each child."""
    listeners, spec = CASES[case]
    return {
        f"{case}-{child['kind'].lower()}-{lasting_name(child)}.yaml": yaml.safe_dump(child, sort_keys=False)
        for child in children(listeners, **spec)
    }


def lasting_name(child: dict[str, Any]) -> str:
    """Without what the name of a ConfigMap says of its content."""
    name = str(child["metadata"]["name"])
    return name.rpartition("-")[0] if child["kind"] == "ConfigMap" else name


@pytest.mark.parametrize("case", CASES)
def test_children_are_those_of_the_files(case: str) -> None:
    read = {path.name: path.read_text(encoding="utf-8") for path in GOLDEN.glob(f"{case}-*.yaml")}
    assert manifests(case) == read


def write() -> None:
    for case in CASES:
        for name, text in manifests(case).items():
            (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
