"""Every field of every kind in another spelling: `sluicegate plan` foretells nothing, and no rule refuses the change.

The manifests are those that a real API server accepts. Their other spellings follow from the types of the fields.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from sluicegate_operator.api import KafkaUser, Manifests, parse_resource
from sluicegate_operator.api.manifests import InvalidManifest
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.planning.layout.preview_nodes import NodeKind
from sluicegate_operator.planning.users.users import wanted_quotas, wanted_rules, with_hosts_of_brokers
from sluicegate_operator.preview.manifests import World, preview
from tests.support.manifests.all_manifests import ALL_GOOD
from tests.support.manifests.bad_manifests import GoodManifest, Json, cluster, pod_settings
from tests.support.manifests.respellings import respellings

BORN, NOW = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 6))
WRITTEN_BY_USERS = [
    *(good for good in ALL_GOOD if good.manifest["kind"] != "BrokerRegistration"),
    GoodManifest("a cluster with certificates of its own", cluster(clusterCa={})),
    GoodManifest(
        "a cluster with every part",
        cluster(
            brokers={"replicas": 3, "storage": {"size": "10Gi"}, "pod": pod_settings(), "resources": {}},
            controllers={"replicas": 3, "pod": {}, "resources": {"limits": {"cpu": "2"}}},
            image="registry.example.org/team/sluicegate",
            imagePullSecrets=["one", "two"],
            observers={"secretNames": ["one", "two"]},
            audit={"landing": {"uri": "s3://audit/a?region=b&scheme=http", "image": "landing", "quota": "1Gi"}},
            connectionQuota={},
            rollout={},
            storage={},
        ),
    ),
]
KINDS_TRIED = {"AuditPipeline", "BrokerCluster", "BrokerListener", "ConnectionQuota", "KafkaUser", "Topic"}


def stored(document: Json) -> Resource:
    """The object as the API server has it for some time, with the certificates that its operator has checked."""
    found = parse_resource(document)
    if isinstance(found, BrokerListener) and found.spec.tls is not None:
        found = found.model_copy(update={"status": found.status.model_copy(update={"tls_secret": "checked"})})
    return found.model_copy(update={"metadata": found.metadata.model_copy(update={"creation_timestamp": BORN})})


def accepted(document: Json, old: Resource) -> Iterator[Resource]:
    """The object, if the API server accepts this spelling: it refuses some empty fields."""
    try:
        yield parse_resource(document)
    except InvalidManifest:
        return
    assert parse_resource(document, old), "a change to an equal value is refused"


@pytest.mark.parametrize("kind", NodeKind)
@pytest.mark.parametrize("good", WRITTEN_BY_USERS, ids=lambda good: good.name)
def test_another_spelling_of_a_field_changes_nothing(good: GoodManifest, kind: NodeKind) -> None:
    old = stored(good.manifest)
    shops = [] if old.kind == "BrokerCluster" else [stored(cluster())]
    before = World(Manifests.of([*shops, old]), kind=kind)
    for word, document in respellings(good.manifest):
        for new in accepted(document, old):
            seen = preview(Manifests.of([*shops, new]), before, NOW)
            assert [(one.live, one.restarts) for one in seen.clusters] == [((), ())] * len(seen.clusters), word
            assert seen.complaints == (), word
            if isinstance(new, KafkaUser) and isinstance(old, KafkaUser):
                assert _of_brokers(new) == _of_brokers(old), word


def _of_brokers(user: KafkaUser) -> tuple[object, object]:
    return wanted_rules(with_hosts_of_brokers(user, external=False)), wanted_quotas(user)


def test_every_kind_has_many_other_spellings() -> None:
    tried = Counter(good.manifest["kind"] for good in WRITTEN_BY_USERS for _ in respellings(good.manifest))
    assert tried.keys() >= KINDS_TRIED
    assert tried.total() > 2000
