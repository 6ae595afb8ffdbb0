"""The shared table of good and bad manifests, run against a real API server (the models are tested with it offline).

The control plane is separate and has no operator: the CRDs alone must refuse.
"""

from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import ControlPlane, KubectlError
from e2e.world.shop import Json, install_crds
from tests.support.manifests.all_manifests import ALL_BAD, ALL_GOOD
from tests.support.manifests.authority_manifests import AUTHORITY_CHANGES
from tests.support.manifests.bad_manifests import BAD_CHANGES, BadChange, BadManifest, GoodManifest
from tests.support.manifests.external_manifests import BAD_EXTERNAL_CHANGES
from tests.support.manifests.listener_manifests import LISTENER_CHANGES
from tests.support.manifests.pipeline_manifests import PIPELINE_CHANGES
from tests.support.manifests.user_manifests import USER_CHANGES
from tests.support.processes.process_kubelet.api import Access, ApiRefused, KubeApi

PLURALS = {
    "BrokerCluster": "brokerclusters",
    "BrokerListener": "brokerlisteners",
    "ConnectionQuota": "connectionquotas",
    "KafkaUser": "kafkausers",
    "ObserverPlugin": "observerplugins",
    "Topic": "topics",
    "AuditPipeline": "auditpipelines",
    "BrokerRegistration": "brokerregistrations",
}
STRICT = "fieldValidation=Strict"
"""As in kubectl's requests: unknown fields are errors."""


@pytest.fixture(scope="module")
def bare_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        install_crds(plane)
        yield plane


@pytest.fixture(scope="module")
def api(bare_plane: ControlPlane) -> Iterator[KubeApi]:
    api = KubeApi(Access(bare_plane.url, str(bare_plane.certificate), bare_plane.token))
    yield api
    api.close()


def path(manifest: Json) -> str:
    return f"/apis/sluicegate.dev/v1alpha1/namespaces/default/{PLURALS[manifest['kind']]}"


@pytest.mark.parametrize(
    "case",
    ALL_GOOD,
    ids=lambda case: case.name,
)
def test_a_good_manifest_is_taken(api: KubeApi, case: GoodManifest) -> None:
    taken = api.create(f"{path(case.manifest)}?dryRun=All&{STRICT}", case.manifest)
    assert taken["metadata"]["name"] == case.manifest["metadata"]["name"]


@pytest.mark.parametrize(
    "case",
    ALL_BAD,
    ids=lambda case: case.name,
)
def test_a_bad_manifest_is_refused_with_its_sentence(api: KubeApi, case: BadManifest) -> None:
    with pytest.raises(ApiRefused) as refused:
        api.create(f"{path(case.manifest)}?dryRun=All&{STRICT}", case.manifest)
    assert case.says in str(refused.value)
    assert case.field in str(refused.value)


@pytest.mark.parametrize(
    "case",
    BAD_CHANGES + PIPELINE_CHANGES + BAD_EXTERNAL_CHANGES + LISTENER_CHANGES + USER_CHANGES + AUTHORITY_CHANGES,
    ids=lambda case: case.name,
)
def test_a_bad_change_is_refused_with_its_sentence(api: KubeApi, case: BadChange) -> None:
    created = api.create(f"{path(case.before)}?{STRICT}", case.before)
    name = f"{path(case.before)}/{case.before['metadata']['name']}"
    try:
        version = {"resourceVersion": created["metadata"]["resourceVersion"]}
        changed = case.after | {"metadata": case.after["metadata"] | version}
        with pytest.raises(ApiRefused) as refused:
            api.request("PUT", f"{name}?{STRICT}", changed)
        assert case.says in str(refused.value)
    finally:
        api.delete(name)


def test_kubectl_shows_the_sentence(bare_plane: ControlPlane) -> None:
    manifest = """
apiVersion: sluicegate.dev/v1alpha1
kind: ConnectionQuota
metadata: {name: nothing}
spec: {clusterRef: {name: shop}, target: {listener: EXTERNAL}}
"""
    with pytest.raises(KubectlError) as refused:
        bare_plane.kubectl("apply", "-f", "-", input=manifest)
    assert "a quota without them limits nothing" in refused.value.stderr
