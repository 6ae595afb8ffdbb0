"""The chart as installed by users: lint, refused values, rendered manifests; and deploy/, generated from it.

`PYTHONPATH=.:operator python tests/integration/chart/test_chart.py` writes full.yaml again; review the difference.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api.manifests import validate
from sluicegate_operator.kube.client.rights import CALLED_OF_ADMISSION, CALLED_OF_SECRETS
from tests.support.obtain.helm import CHART, NAMESPACE, HelmError, helm, render
from tools.chart import DEPLOY, chart_crds, manifests

pytestmark = pytest.mark.full

FULL_VALUES = Path(__file__).with_name("full-values.yaml")
FULL = Path(__file__).with_name("full.yaml")
BROKER_CLUSTER = "sluicegate.dev/v1alpha1/BrokerCluster"
SECRETS = ("rbac.secrets=true",)
CERT_MANAGER = "cert-manager.io/v1"


def full() -> str:
    """Render everything but CRDs and rights, with every value set, without Helm's comments."""
    less = ("crds.install=false", "rbac.create=false", "uninstall.releaseTopics=false")
    text = render(*less, files=(FULL_VALUES,), api_versions=(BROKER_CLUSTER, CERT_MANAGER))
    return re.sub(r"^# Source: .*\n", "", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    """Render with the defaults and the guard."""
    return [one for one in yaml.safe_load_all(render("guard.enabled=true")) if one]


def of_kind(kind: str, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def test_lint_finds_nothing() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_deploy_has_not_drifted() -> None:
    rendered = manifests()
    found = {str(file.relative_to(DEPLOY)): file.read_text(encoding="utf-8") for file in DEPLOY.rglob("*.yaml")}
    assert found == rendered, "run `make chart` and commit the result"


def test_rendering_with_all_values_equals_the_golden_file() -> None:
    assert full() == FULL.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('replicas="2"', "at '/replicas': got string, want integer"),
        ("replica=2", "additional properties 'replica' not allowed"),
        ('image.digest="sha256:12"', "at '/image/digest'"),
        ('image.tag="a tag"', "at '/image/tag'"),
        ('logLevel="info"', "at '/logLevel': value must be one of 'DEBUG'"),
        ("settings.lease=3", "additional properties 'lease' not allowed"),
        ("settings.leaseSeconds=1", "at '/settings/leaseSeconds'"),
        ("metrics.port=80", "at '/metrics/port'"),
        ('watch.namespace="A_b"', "at '/watch/namespace'"),
        ('imagePullSecrets=["registry"]', "at '/imagePullSecrets/0'"),
        ('resources.limits.memory="lots"', "at '/resources/limits/memory'"),
        ('tolerations=[{"keys": "a"}]', "at '/tolerations/0'"),
        ("networkPolicy.metricsFrom=[{}]", "at '/networkPolicy/metricsFrom/0'"),
        ('watch={"ownNamespace": true, "namespace": "shop"}', "watch: set ownNamespace"),
        ("admission.timeoutSeconds=20", "at '/admission/timeoutSeconds'"),
        ("admission.port=8080", "admission.port: 8080 is the metrics port"),
        ('admission={"enabled": true, "certManager": {"enabled": true}}', "install cert-manager first"),
        ("settings.requestTimeoutSeconds=6", "must be at most a third of leaseSeconds, 15"),
        (
            'podLabels={"app.kubernetes.io/name": "mine"}',
            "podLabels: NetworkPolicies of clusters select the operator by",
        ),
        ('commonLabels={"app.kubernetes.io/version": "2"}', "commonLabels: app.kubernetes.io/version is"),
        ("sampleCluster.enabled=true", "install the chart without it, then `helm upgrade` with it"),
    ],
)
def test_what_is_mistyped_is_refused_in_a_sentence(value: str, said: str) -> None:
    with pytest.raises(HelmError) as refused:
        render(value)
    assert said in str(refused.value)


def test_crds_are_rendered_as_they_are_and_stay(everything: list[dict[str, Any]]) -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in of_kind("CustomResourceDefinition", everything)}
    written = [yaml.safe_load(text) for text in chart_crds().values()]
    assert rendered == {crd["metadata"]["name"]: crd for crd in written}
    kept = {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in rendered.values()}
    assert kept == {"keep"}


def test_an_operator_of_one_namespace_has_rights_in_it_only_and_may_use_another_account() -> None:
    values = (
        "uninstall.releaseTopics=false",
        'watch.namespace="shop"',
        "rbac.readNodes=true",
        'serviceAccount.name="kafka"',
    )
    documents = [one for one in yaml.safe_load_all(render("crds.install=false", *values)) if one]
    roles, everywhere = of_kind("Role", documents), of_kind("ClusterRole", documents)
    assert [role["metadata"]["namespace"] for role in roles] == ["shop"]
    nodes = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert [(role["metadata"]["name"], role["rules"]) for role in everywhere] == [
        ("sluicegate-system-sluicegate-operator-nodes", nodes)
    ]
    account = [{"kind": "ServiceAccount", "name": "kafka", "namespace": NAMESPACE}]
    bindings = of_kind("RoleBinding", documents) + of_kind("ClusterRoleBinding", documents)
    assert [binding["subjects"] for binding in bindings] == [account] * 2


def test_only_a_value_lets_the_operator_use_secrets() -> None:
    less = ("crds.install=false", "uninstall.releaseTopics=false")
    without, with_it = (
        of_kind("ClusterRole", list(yaml.safe_load_all(render(*less, *more)))) for more in ((), SECRETS)
    )
    added = [
        rule for role in with_it for rule in role["rules"] if rule not in [r for one in without for r in one["rules"]]
    ]
    assert {
        (rule["apiGroups"][0], rule["resources"][0]): frozenset(rule["verbs"]) for rule in added
    } == CALLED_OF_SECRETS


def of_admission(*values: str) -> list[dict[str, Any]]:
    """Return the objects that admission adds to the chart."""
    less = ("crds.install=false", "uninstall.releaseTopics=false")
    without = list(yaml.safe_load_all(render(*less)))
    return [
        one for one in yaml.safe_load_all(render(*less, *values, api_versions=(CERT_MANAGER,))) if one not in without
    ]


@pytest.mark.parametrize("made_by_cert_manager", [False, True])
def test_admission_adds_a_webhook_that_refuses_nothing_and_rights_on_its_own_objects(
    made_by_cert_manager: bool,
) -> None:
    manager = f'{{"enabled": {str(made_by_cert_manager).lower()}}}'
    found = of_admission("admission.enabled=true", f"admission.certManager={manager}")
    [configuration] = of_kind("ValidatingWebhookConfiguration", found)
    for webhook in configuration["webhooks"]:
        assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == ("Ignore", "None", 2)
        assert "caBundle" not in webhook["clientConfig"]
    rules = [rule for role in of_kind("Role", found) + of_kind("ClusterRole", found) for rule in role["rules"]]
    granted = {(rule["apiGroups"][0], rule["resources"][0]): frozenset(rule["verbs"]) for rule in rules}
    secret = "sluicegate-operator-admission" + ("-tls" if made_by_cert_manager else "")
    assert all(rule["resourceNames"] in ([secret], ["sluicegate-operator-admission"]) for rule in rules)
    assert granted == ({("", "secrets"): frozenset({"get"})} if made_by_cert_manager else CALLED_OF_ADMISSION)
    kinds = {"ValidatingWebhookConfiguration", "Service", "Role", "RoleBinding", "Deployment", "NetworkPolicy"}
    kinds |= {"Certificate", "Issuer"} if made_by_cert_manager else {"Secret", "ClusterRole", "ClusterRoleBinding"}
    assert {document["kind"] for document in found} == kinds


def test_an_operator_of_one_namespace_warns_there_alone() -> None:
    found = of_admission("admission.enabled=true", 'watch.namespace="shop"')
    [configuration] = of_kind("ValidatingWebhookConfiguration", found)
    assert configuration["metadata"]["name"] == "sluicegate-system-sluicegate-operator-admission"
    namespaces = {
        webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for webhook in configuration["webhooks"]
    }
    assert namespaces == {"shop"}


def test_replicas_are_spread_over_nodes_and_replaced_one_by_one() -> None:
    documents = list(yaml.safe_load_all(render("crds.install=false", "replicas=3")))
    [deployment] = of_kind("Deployment", documents)
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    [spread] = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    [budget] = of_kind("PodDisruptionBudget", documents)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (spread["labelSelector"], budget["spec"]["selector"], deployment["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()


def test_what_the_schema_names_has_a_default_and_the_other_way_round() -> None:
    """A value without a schema entry could not be set; one without a default would not be documented."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    assert set(schema) - {"global"} == set(values)
    open_ones = {"global", "settings", "resources", "affinity"}
    for name, part in schema.items():
        if "properties" in part and name not in open_ones:
            assert set(part["properties"]) == set(values[name]), name


def test_settings_of_the_values_are_those_that_the_operator_reads() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]["settings"]
    named = {re.sub("([A-Z])", r"_\1", name).upper() for name in schema["properties"]}
    source = (CHART.parents[1] / "operator/sluicegate_operator/settings.py").read_text(encoding="utf-8")
    read = set(re.findall(r'"SLUICEGATE_([A-Z_]+)"', source))
    elsewhere = {"IDENTITY", "METRICS_LISTENER", "IMAGE", "LANDING_IMAGE", "PIPELINE_IMAGE", "IMAGE_PULL_SECRETS"}
    of_admission = {name for name in read if name.startswith("ADMISSION_")}
    assert named == read - elsewhere - of_admission
    deployment = (CHART / "templates" / "deployment.yaml").read_text(encoding="utf-8")
    assert of_admission == set(re.findall("SLUICEGATE_(ADMISSION_[A-Z]+(?:_[A-Z]+)*)", deployment))


def test_it_has_the_version_of_the_project() -> None:
    """The images have that version, too."""
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_every_setting_is_explained() -> None:
    source = (CHART.parents[1] / "operator/sluicegate_operator/settings.py").read_text(encoding="utf-8")
    explained = (CHART / "README.md").read_text(encoding="utf-8")
    assert not [name for name in re.findall(r'"(SLUICEGATE_[A-Z_]+)"', source) if f"`{name}`" not in explained]


def test_the_sample_cluster_is_valid_and_stays() -> None:
    text = render("sampleCluster.enabled=true", show_only=("sample-cluster.yaml",), api_versions=(BROKER_CLUSTER,))
    found = list(yaml.safe_load_all(text))
    assert [one["kind"] for one in found] == ["BrokerCluster", "BrokerListener"]
    assert [problem for one in found for problem in validate(one)] == []
    assert text.count("helm.sh/resource-policy: keep") == 2


if __name__ == "__main__":
    FULL.write_text(full(), encoding="utf-8")
