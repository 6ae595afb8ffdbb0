"""Arguments override the environment, which overrides defaults; bad values get a sentence."""

import pytest

from sluicegate_operator.planning.layout.images import Images
from sluicegate_operator.settings import AdmissionSettings, SettingsError, read_settings

ADMISSION = {
    "SLUICEGATE_ADMISSION_LISTENER": "0.0.0.0:9443",
    "SLUICEGATE_ADMISSION_HOSTS": "webhook.ops.svc, 127.0.0.1",
    "SLUICEGATE_ADMISSION_SECRET": "certificate",
    "SLUICEGATE_ADMISSION_CONFIGURATION": "webhooks",
}


def test_admission_is_off_unless_it_has_a_listener() -> None:
    assert read_settings({}, None, None, None).admission is None
    found = read_settings(ADMISSION, None, None, None).admission
    hosts = ("webhook.ops.svc", "127.0.0.1")
    assert found == AdmissionSettings(("0.0.0.0", 9443), hosts, "certificate", "webhooks", True, 60.0, 128)
    more = {
        "SLUICEGATE_ADMISSION_CERTIFICATES": "CertManager",
        "SLUICEGATE_ADMISSION_CHECK_SECONDS": "5",
        "SLUICEGATE_ADMISSION_CONNECTIONS": "8",
    }
    found = read_settings(ADMISSION | more, None, None, None).admission
    assert found is not None
    assert (found.makes_certificates, found.check_every_s, found.connections) == (False, 5.0, 8)


def test_the_lease_lives_in_the_watched_namespace_or_in_the_pods_own() -> None:
    assert read_settings({}, None, None, None).lease_namespace == "default"
    assert read_settings({"POD_NAMESPACE": "ops"}, None, None, None).lease_namespace == "ops"
    assert read_settings({"POD_NAMESPACE": "ops"}, "team", None, None).lease_namespace == "team"


def test_arguments_win_over_the_environment() -> None:
    environment = {"KUBECONFIG": "/env", "SLUICEGATE_METRICS_LISTENER": "0.0.0.0:1"}
    settings = read_settings(environment, None, "/argument", "[::1]:8080")
    assert settings.kubeconfig == "/argument"
    assert settings.metrics == ("::1", 8080)
    assert read_settings(environment, None, None, None).kubeconfig == "/env"


def test_resync_comes_from_each_cluster_unless_it_is_set_for_all() -> None:
    assert read_settings({}, None, None, None).resync_s is None
    assert read_settings({"SLUICEGATE_RESYNC_SECONDS": "3"}, None, None, None).resync_s == 3.0


def test_a_request_ends_before_another_operator_may_start() -> None:
    shortened = read_settings({"SLUICEGATE_LEASE_SECONDS": "6"}, None, None, None)
    assert (shortened.lease_s, shortened.request_timeout_s) == (6, 2)
    assert read_settings({}, None, None, None).request_timeout_s == 5


@pytest.mark.parametrize(
    ("environment", "metrics", "said"),
    [
        ({"SLUICEGATE_RESYNC_SECONDS": "soon"}, None, "SLUICEGATE_RESYNC_SECONDS"),
        ({"SLUICEGATE_RESYNC_SECONDS": "0"}, None, "at least 1"),
        ({"SLUICEGATE_LEASE_SECONDS": "1"}, None, "at least 3"),
        (
            {"SLUICEGATE_LEASE_SECONDS": "12", "SLUICEGATE_REQUEST_TIMEOUT_SECONDS": "5"},
            None,
            "SLUICEGATE_REQUEST_TIMEOUT_SECONDS: 5 must be at most a third of SLUICEGATE_LEASE_SECONDS, 4",
        ),
        (
            {"SLUICEGATE_IMAGE": "Not An Image!"},
            None,
            "SLUICEGATE_IMAGE: Not An Image! must be the name of a container",
        ),
        ({"SLUICEGATE_IMAGE_PULL_SECRETS": "a,B c"}, None, "SLUICEGATE_IMAGE_PULL_SECRETS: B c must be the name of a"),
        ({}, "8080", "--metrics-listener: 8080 must be host:port"),
        ({"SLUICEGATE_ADMISSION_LISTENER": "9443"}, None, "SLUICEGATE_ADMISSION_LISTENER: 9443 must be host:port"),
        ({"SLUICEGATE_ADMISSION_LISTENER": "h:1"}, None, "SLUICEGATE_ADMISSION_SECRET must be set when"),
        (ADMISSION | {"SLUICEGATE_ADMISSION_HOSTS": " , "}, None, "SLUICEGATE_ADMISSION_HOSTS must be set when"),
        (
            ADMISSION | {"SLUICEGATE_ADMISSION_CERTIFICATES": "Me"},
            None,
            "SLUICEGATE_ADMISSION_CERTIFICATES: Me must be Operator or CertManager",
        ),
        (ADMISSION | {"SLUICEGATE_ADMISSION_CHECK_SECONDS": "0.1"}, None, "must be a number of at least 0.5"),
        ({}, "h:99999", "must be host:port"),
    ],
)
def test_values_that_cannot_be_used_are_named(environment: dict[str, str], metrics: str | None, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings(environment, None, None, metrics)


def test_how_often_controllers_are_asked_can_be_set() -> None:
    assert read_settings({}, None, None, None).view_every_s == 3.0
    assert read_settings({"SLUICEGATE_VIEW_SECONDS": "0.5"}, None, None, None).view_every_s == 0.5
    with pytest.raises(SettingsError, match=r"at least 0\.2"):
        read_settings({"SLUICEGATE_VIEW_SECONDS": "0.1"}, None, None, None)


def test_images_are_those_of_the_operators_version_or_as_they_are_named() -> None:
    assert read_settings({}, None, None, None).images == Images()
    named = {
        "SLUICEGATE_IMAGE": "registry.example.org/a:1",
        "SLUICEGATE_LANDING_IMAGE": "registry.example.org/b:1",
        "SLUICEGATE_PIPELINE_IMAGE": "registry.example.org/c:1",
        "SLUICEGATE_IMAGE_PULL_SECRETS": "one, two",
    }
    images = read_settings(named, None, None, None).images
    nodes, landing, pipeline = (f"registry.example.org/{name}:1" for name in "abc")
    assert images == Images(nodes, landing, pipeline, ("one", "two"))
