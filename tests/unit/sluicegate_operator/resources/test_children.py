"""Rules for the children that are independent of the golden files."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from audit_pipeline.__main__ import parser
from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.children import cluster_children, listener_children
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, decode_revision, restart_reasons
from sluicegate_operator.resources.labels import REVISION
from sluicegate_operator.resources.service import port_name
from tests.support.manifests.bad_manifests import cluster, listener, named_listener

Json = dict[str, Any]


def children(*listeners: Json, **spec: Any) -> list[Json]:
    of = parse_resource(cluster(**spec))
    assert isinstance(of, BrokerCluster)
    return cluster_children(of, parsed(*listeners))


def parsed(*listeners: Json) -> list[BrokerListener]:
    resources = [parse_resource(document) for document in listeners]
    return [resource for resource in resources if isinstance(resource, BrokerListener)]


def template(of: list[Json], name: str) -> Json:
    (found,) = [child for child in of if child["kind"] == "StatefulSet" and child["metadata"]["name"] == name]
    return dict(found["spec"]["template"])


def revision(of: list[Json], name: str) -> str:
    return str(template(of, name)["metadata"]["annotations"][REVISION])


STANDBYS = {"controllers": {"replicas": 3}}


@pytest.fixture(params=["shop-brokers", "shop-controllers"])
def pod(request: pytest.FixtureRequest) -> Json:
    return dict(template(children(listener()), request.param)["spec"])


def test_pods_keep_the_restricted_standard(pod: Json) -> None:
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False, "a single controller needs no token either"
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_probes_ask_the_http_listener(pod: Json) -> None:
    (container,) = pod["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]}["http"] == 9404
    asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert asked == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}


def test_every_reference_in_arguments_is_a_variable_of_the_container(pod: Json) -> None:
    (container,) = pod["containers"]
    used = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
    assert used == {"POD_IP", "POD_INDEX"}
    assert used <= {variable["name"] for variable in container["env"]}


def config_maps(of: list[Json]) -> dict[str, Json]:
    return {child["metadata"]["name"]: child for child in of if child["kind"] == "ConfigMap"}


def mounted(of: list[Json], name: str) -> str:
    return str(template(of, name)["spec"]["volumes"][0]["configMap"]["name"])


def test_a_pod_keeps_the_file_that_it_was_made_with() -> None:
    before, after = children(), children(config={"num.partitions": "5"})
    for name in ("shop-brokers", "shop-controllers"):
        assert config_maps(before)[mounted(before, name)]["immutable"] is True
        assert mounted(after, name) in config_maps(after)
        assert mounted(after, name) not in config_maps(before)
    assert config_maps(children(resyncSeconds=5)) == config_maps(before), "equal files are one ConfigMap"


def test_brokers_know_controllers_by_addresses_that_are_there_before_any_pod() -> None:
    of = children(controllers={"replicas": 3})
    (container,) = template(of, "shop-brokers")["spec"]["containers"]
    [told] = [argument for argument in container["args"] if argument.startswith("controller.quorum.bootstrap.servers=")]
    names = [address.removesuffix(":9093") for address in told.partition("=")[2].split(",")]
    assert names == ["shop-controllers-0", "shop-controllers-1", "shop-controllers-2"]
    services = {child["metadata"]["name"]: child["spec"] for child in of if child["kind"] == "Service"}
    for name in names:
        assert "." not in name, "the first domain that a pod searches has it"
        assert services[name]["type"] == "ClusterIP"
        assert services[name].get("clusterIP") is None
        assert services[name]["publishNotReadyAddresses"] is True
        assert services[name]["selector"]["statefulset.kubernetes.io/pod-name"] == name


def test_a_config_map_is_there_before_what_needs_it() -> None:
    kinds = [child["kind"] for child in children()]
    assert [kind for kind in kinds if kind in ("ConfigMap", "StatefulSet")] == ["ConfigMap", "StatefulSet"] * 2


def test_no_mount_path_stands_in_a_mounted_file() -> None:
    paths = ("/var/lib/sluicegate", "/etc/sluicegate")
    texts = [text for child in children(listener()) if child["kind"] == "ConfigMap" for text in child["data"].values()]
    assert len(texts) == 2
    assert not [text for text in texts if any(path in text for path in paths)]


def test_node_ids_of_controllers_begin_at_a_thousand() -> None:
    (container,) = template(children(), "shop-controllers")["spec"]["containers"]
    assert "node.id=100$(POD_INDEX)" in container["args"]


@pytest.mark.parametrize("change", [{"resyncSeconds": 5}, {"paused": True}], ids=str)
def test_changes_that_brokers_need_not_know_do_not_restart_them(change: Json) -> None:
    assert children(listener(), **change) == children(listener())


@pytest.mark.parametrize(
    ("change", "brokers_roll", "controllers_roll"),
    [
        ({"config": {"num.partitions": "5"}}, True, True),
        ({"connectionQuota": {"strategy": "token-bucket"}}, True, True),
        ({"brokers": {"replicas": 9, "storage": {"size": "10Gi"}}}, False, False),
        ({"config": {"log.retention.ms": "5", "min.insync.replicas": "2"}}, False, False),
        ({"rollout": {"paused": True, "strategy": "Broker"}}, False, False),
        ({"image": "other:1"}, True, True),
    ],
    ids=[
        "static configuration rolls",
        "the strategy rolls",
        "more brokers do not roll those that are there",
        "what Kafka calls dynamic does not roll",
        "how to roll does not roll",
        "another image rolls",
    ],
)
def test_what_restarts_pods(change: Json, brokers_roll: bool, controllers_roll: bool) -> None:
    before, after = children(listener()), children(listener(), **change)
    assert (template(before, "shop-brokers") != template(after, "shop-brokers")) is brokers_roll
    assert (template(before, "shop-controllers") != template(after, "shop-controllers")) is controllers_roll


def test_a_new_listener_leaves_the_controller_as_it_is() -> None:
    before, after = children(), children(listener())
    assert template(before, "shop-controllers") == template(after, "shop-controllers")


def test_pods_wait_for_the_operator_to_replace_them() -> None:
    sets = [child for child in children(listener()) if child["kind"] == "StatefulSet"]
    assert [child["spec"]["updateStrategy"] for child in sets] == [{"type": "OnDelete"}] * 2


def test_the_revision_of_a_pod_can_be_read_and_is_small() -> None:
    text = revision(children(listener(), config={"num.partitions": "5"}), "shop-brokers")
    read = decode_revision(text)
    assert read is not None
    assert {"num.partitions", "listeners", "node.id"} <= set(read.keys)
    assert len(text) < 4096


def test_dynamic_configuration_is_in_no_file() -> None:
    of = children(config={"log.retention.ms": "5", "num.partitions": "3"})
    texts = [child["data"]["server.properties"] for child in of if child["kind"] == "ConfigMap"]
    assert all("num.partitions=3" in text and "log.retention.ms" not in text for text in texts)


ZONES = {"replicas": 3, "storage": {"size": "1Gi"}, "rack": {"topologyKey": "topology.kubernetes.io/zone"}}


def test_a_broker_reads_its_rack_where_its_pod_shows_the_annotation() -> None:
    of = children(brokers=ZONES)
    broker, controller = (template(of, f"shop-{role}s")["spec"] for role in ("broker", "controller"))
    assert controller == template(children(), "shop-controllers")["spec"], "controllers have no rack"
    (container,) = broker["containers"]
    [told] = [argument for argument in container["args"] if argument.startswith("sluicegate.broker.rack.file=")]
    folder, _, name = told.partition("=")[2].rpartition("/")
    [mount] = [mount for mount in container["volumeMounts"] if mount["mountPath"] == folder]
    [volume] = [volume for volume in broker["volumes"] if volume["name"] == mount["name"]]
    assert volume["downwardAPI"]["items"] == [
        {"path": name, "fieldRef": {"fieldPath": "metadata.annotations['sluicegate.dev/rack']"}}
    ]


def test_pods_are_spread_over_the_racks_of_nodes_that_have_one() -> None:
    of = children(brokers=ZONES)
    pod = template(of, "shop-brokers")
    [constraint, over_nodes] = pod["spec"]["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
    assert over_nodes["topologyKey"] == "kubernetes.io/hostname"
    assert constraint["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": constraint["topologyKey"], "operator": "Exists"}]}]
    }


def test_pods_of_a_role_are_spread_over_nodes_if_possible() -> None:
    for name in ("shop-brokers", "shop-controllers"):
        pod = template(children(**STANDBYS), name)
        [constraint] = pod["spec"]["topologySpreadConstraints"]
        assert constraint["topologyKey"] == "kubernetes.io/hostname"
        assert constraint["whenUnsatisfiable"] == "ScheduleAnyway", "one node must do"
        assert constraint["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_controllers_have_resources_of_their_own() -> None:
    amounts = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
    before, after = children(), children(controllers={"replicas": 1, "resources": amounts})
    assert template(after, "shop-controllers")["spec"]["containers"][0]["resources"] == amounts
    assert template(after, "shop-brokers") == template(before, "shop-brokers")


def test_a_rack_restarts_brokers_and_says_why() -> None:
    running, wanted = (decode_revision(revision(children(**spec), "shop-brokers")) for spec in ({}, {"brokers": ZONES}))
    assert wanted is not None
    assert [str(reason) for reason in restart_reasons(running, wanted)] == [
        "ConfigChanged (sluicegate.broker.rack.file)"
    ]


def test_brokers_hand_over_before_the_signal_and_serve_when_unfenced() -> None:
    broker, controller = (template(children(), f"shop-{role}s")["spec"] for role in ("broker", "controller"))
    assert broker["readinessGates"] == [{"conditionType": "sluicegate.dev/unfenced"}]
    (container,) = broker["containers"]
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:3] == ["python", "-m", "broker_runtime.controlled_shutdown"]
    deadline_s = float(command[command.index("--deadline-s") + 1])
    own_s = next(float(a.split("=")[1]) / 1000 for a in container["args"] if "shutdown.timeout.ms" in a)
    assert own_s < deadline_s < broker["terminationGracePeriodSeconds"]
    assert "readinessGates" not in controller
    assert "lifecycle" not in controller["containers"][0]


def test_only_controllers_that_share_a_journal_have_a_token() -> None:
    alone, shared = children(), children(**STANDBYS)
    assert not [child for child in alone if child["kind"] in ("Role", "RoleBinding")]
    broker, controller = (template(shared, f"shop-{role}s")["spec"] for role in ("broker", "controller"))
    assert (broker["serviceAccountName"], broker["automountServiceAccountToken"]) == ("shop-nodes", False)
    assert (controller["serviceAccountName"], controller["automountServiceAccountToken"]) == ("shop-journal", True)
    (binding,) = [child for child in shared if child["kind"] == "RoleBinding"]
    assert [subject["name"] for subject in binding["subjects"]] == ["shop-journal"]
    (role,) = [child for child in shared if child["kind"] == "Role"]
    assert "*" not in json.dumps(role["rules"])
    assert "secrets" not in json.dumps(role["rules"])


def test_fewer_brokers_wait_for_the_word_of_planning() -> None:
    of = cluster_children(a_cluster(), [], 7)
    (brokers,) = [c for c in of if c["kind"] == "StatefulSet" and c["metadata"]["name"] == "shop-brokers"]
    assert brokers["spec"]["replicas"] == 7


def test_a_drain_of_a_node_takes_one_broker_and_one_controller_at_most() -> None:
    budgets = [child for child in children() if child["kind"] == "PodDisruptionBudget"]
    assert {budget["metadata"]["name"]: budget["spec"]["maxUnavailable"] for budget in budgets} == {
        "shop-brokers": 1,
        "shop-controllers": 1,
    }


def test_a_quota_never_touches_a_pod() -> None:
    # The builders do not even get quotas; this guards the keys that carry limits.
    text = json.dumps(children(listener(), connectionQuota={"windowNum": 3}))
    assert "max.connection" not in text
    assert "listener.name." not in text


def test_nothing_carries_the_label_that_argo_cd_tracks_by() -> None:
    assert "app.kubernetes.io/instance" not in json.dumps(children(listener()))


def test_selectors_find_the_pods_they_are_meant_for() -> None:
    of = children(listener())
    for child in of:
        if child["kind"] == "StatefulSet":
            wanted = child["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= child["spec"]["template"]["metadata"]["labels"].items()
    (service,) = services_of(listener())
    assert service["spec"]["selector"].items() <= template(of, "shop-brokers")["metadata"]["labels"].items()


def a_cluster() -> BrokerCluster:
    of = parse_resource(cluster())
    assert isinstance(of, BrokerCluster)
    return of


def services_of(*listeners: Json) -> list[Json]:
    found = listener_children(a_cluster(), parsed(*listeners))
    return [service for services in found.values() for service in services]


def owners(of: list[Json]) -> Iterator[str]:
    for child in of:
        (owner,) = child["metadata"]["ownerReferences"]
        yield owner["kind"]


def test_children_belong_to_their_resource() -> None:
    assert set(owners(children(listener()))) == {"BrokerCluster"}
    assert list(owners(services_of(listener()))) == ["BrokerListener"]


def test_a_listener_that_clashes_has_no_service() -> None:
    younger = listener("a-younger") | {
        "metadata": {"name": "a-younger", "creationTimestamp": "2026-02-01T00:00:00Z"},
    }
    services = services_of(younger, listener())
    assert [service["metadata"]["name"] for service in services] == ["shop-external"]


@pytest.mark.parametrize(
    ("exposure", "policy"), [("ClusterIP", None), ("NodePort", "Local"), ("LoadBalancer", "Local")]
)
def test_client_addresses_reach_the_broker(exposure: str, policy: str | None) -> None:
    services = services_of(listener(exposure=exposure))
    assert {service["spec"].get("externalTrafficPolicy") for service in services} == {policy}


def test_each_broker_of_a_listener_that_is_exposed_has_a_service_of_its_own() -> None:
    ports = {"bootstrap": 30090, "firstBroker": 30100}
    every, *single = services_of(listener(exposure="NodePort", nodePorts=ports, annotations={"a": "b"}))
    assert [service["metadata"]["name"] for service in single] == [f"shop-external-{number}" for number in range(3)]
    pods = [service["spec"]["selector"]["statefulset.kubernetes.io/pod-name"] for service in single]
    assert pods == [f"shop-brokers-{number}" for number in range(3)]
    assert [service["spec"]["ports"][0]["nodePort"] for service in (every, *single)] == [30090, 30100, 30101, 30102]
    assert all(service["metadata"]["annotations"] == {"a": "b"} for service in (every, *single))
    assert "statefulset.kubernetes.io/pod-name" not in every["spec"]["selector"]


def test_load_balancers_have_the_settings_of_the_manifest() -> None:
    spec: Json = {"loadBalancerClass": "example.org/inner", "loadBalancerSourceRanges": ["203.0.113.0/24"]}
    for service in services_of(listener(exposure="LoadBalancer", externalTrafficPolicy="Cluster", **spec)):
        assert spec.items() <= service["spec"].items()
        assert service["spec"]["externalTrafficPolicy"] == "Cluster"


@pytest.mark.parametrize("name", ["shop-brokers", "shop-controllers"])
def test_listeners_of_clients_are_no_reason_to_restart_and_are_in_the_next_start(name: str) -> None:
    trusting = listener(proxyProtocol={"trusted": ["10.1.2.3/8"]})
    assert revision(children(), name) == revision(children(trusting), name)
    properties = {
        child["metadata"]["name"]: child["data"] for child in children(trusting) if child["kind"] == "ConfigMap"
    }
    assert ("EXTERNAL:PLAINTEXT" in str(properties)) is True
    assert "listener.name.external.proxy.protocol.trusted=10.0.0.0/8" in str(properties)
    assert "EXTERNAL://$(POD_IP):9094" in str(template(children(trusting), "shop-brokers"))


def file_of(of: list[Json], name: str) -> str:
    """Return the text of server.properties that the pods mount."""
    [text] = config_maps(of)[mounted(of, name)]["data"].values()
    return str(text)


def with_stores(document: Json) -> Json:
    return document | {"status": {"tlsSecret": "shop-external-listener-tls"}}


def test_a_listener_with_tls_waits_for_its_certificates_and_then_rolls_brokers_alone() -> None:
    secured = listener(tls={"secretName": "shop-tls"}, authentication={"type": "tls"})
    assert "EXTERNAL" not in json.dumps(children(secured)), "nothing that brokers could not start with"
    of, plain = children(with_stores(secured)), children()
    assert revision(of, "shop-controllers") == revision(plain, "shop-controllers")
    reasons = restart_reasons(
        decode_revision(revision(plain, "shop-brokers")),
        decode_revision(revision(of, "shop-brokers")) or NodeRevision(),
    )
    assert [reason.kind for reason in reasons] == ["ConfigChanged"]
    assert "listener.name.external.ssl.keystore.location" in reasons[0].keys
    spec = template(of, "shop-brokers")["spec"]
    [volume] = [one for one in spec["volumes"] if "projected" in one]
    assert volume["projected"]["sources"] == [{"secret": {"name": "shop-external-listener-tls"}}]
    [mount] = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == volume["name"]]
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/sluicegate-listeners/external", True)
    arguments = spec["containers"][0]["args"]
    location = "/etc/sluicegate-listeners/external"
    assert f"listener.name.external.ssl.keystore.location={location}/keystore.pem" in arguments
    assert f"listener.name.external.ssl.truststore.location={location}/truststore.pem" in arguments
    properties = file_of(of, "shop-brokers")
    assert "listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:SSL\n" in properties
    assert "listener.name.external.ssl.client.auth=required\n" in properties


def test_a_listener_for_service_accounts_reads_the_keys_of_the_api_server() -> None:
    of = children(with_stores(listener(tls={"secretName": "a"}, authentication={"type": "serviceAccount"})))
    [volume] = [one for one in template(of, "shop-brokers")["spec"]["volumes"] if "projected" in one]
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "secret",
        "serviceAccountToken",
        "configMap",
    ]
    properties = file_of(of, "shop-brokers")
    assert "EXTERNAL:SASL_SSL\n" in properties
    assert "listener.name.external.sasl.oauthbearer.expected.audience=sluicegate\n" in properties
    assert "https\\://" in properties or "https://kubernetes.default.svc/openid/v1/jwks" in properties


def test_a_listener_for_passwords_has_no_files() -> None:
    of = children(listener(authentication={"type": "scram-sha-512"}))
    assert not [one for one in template(of, "shop-brokers")["spec"]["volumes"] if "projected" in one]
    assert "EXTERNAL:SASL_PLAINTEXT\n" in file_of(of, "shop-brokers")
    assert "listener.name.external.sasl.enabled.mechanisms=SCRAM-SHA-512\n" in file_of(of, "shop-brokers")
    assert "connections.max.reauth.ms" not in file_of(of, "shop-brokers")


def test_sessions_of_a_listener_end_after_its_time() -> None:
    of = children(listener(authentication={"type": "scram-sha-512", "maxSecondsWithoutReauthentication": 30}))
    assert "listener.name.external.connections.max.reauth.ms=30000\n" in file_of(of, "shop-brokers")


@pytest.mark.parametrize(
    ("name", "port"),
    [("EXTERNAL", "external"), ("A_B", "a-b"), ("A__B", "a-b"), ("A_VERY_LONG_NAME_", "a-very-long-nam"), ("A_", "a")],
)
def test_port_names_are_valid(name: str, port: str) -> None:
    assert port_name(name) == port
    assert re.fullmatch("[a-z0-9]([a-z0-9]|-(?!-))*[a-z0-9]|[a-z]", port)


def test_listeners_whose_port_names_are_equal_are_told_apart() -> None:
    one, other = named_listener("PARTNERS_OF_EUROPE"), named_listener("PARTNERS_OF_EURASIA")
    other = other | {"metadata": {"name": "other"}, "spec": other["spec"] | {"port": 9095}}
    (container,) = template(children(one, other), "shop-brokers")["spec"]["containers"]
    names = [port["name"] for port in container["ports"]]
    assert len(set(names)) == len(names) == 4


def test_brokers_have_code_of_config_maps_only_where_the_cluster_allows_it() -> None:
    name = "shop-brokers"
    plain, allowed = children(), children(observers={"allowConfigMapCode": True})
    pod = template(allowed, name)["spec"]
    assert {"name": "observers", "configMap": {"name": "shop-observers", "optional": True}} in pod["volumes"]
    (container,) = pod["containers"]
    path = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "observers")
    assert {"name": "PYTHONPATH", "value": path} in container["env"]
    assert "shop-observers" not in json.dumps(plain)
    assert template(allowed, "shop-controllers") == template(plain, "shop-controllers")
    assert revision(allowed, name) != revision(plain, name)


def test_brokers_may_import_the_wheels_of_a_volume() -> None:
    wheels = {"claimName": "wheels", "files": ["a-1.0-py3-none-any.whl", "b-2.0-py3-none-any.whl"]}
    pod = template(children(observers={"wheels": wheels, "allowConfigMapCode": True}), "shop-brokers")["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    path = next(each["value"] for each in container["env"] if each["name"] == "PYTHONPATH")
    on_volume = [f"{mounts['observer-wheels']}/{file}" for file in wheels["files"]]
    assert path.split(":") == [mounts["observers"], *on_volume]
    claim = {"claimName": "wheels", "readOnly": True}
    assert {"name": "observer-wheels", "persistentVolumeClaim": claim} in pod["volumes"]


def landing(**fields: Any) -> dict[str, Any]:
    pod: dict[str, Any] = template(children(audit={"landing": fields}), "shop-brokers")["spec"]
    return pod


def test_an_audit_log_is_landed_by_a_sidecar_that_has_the_brokers_data_and_no_more_rights() -> None:
    pod, plain = landing(claimName="audit"), template(children(), "shop-brokers")["spec"]
    (lander,), (broker,) = pod["initContainers"], pod["containers"]
    assert lander["restartPolicy"] == "Always"
    assert (lander["image"], lander["securityContext"]) == (broker["image"], broker["securityContext"])
    assert lander["securityContext"]["readOnlyRootFilesystem"]
    assert pod["automountServiceAccountToken"] is False
    mounts = {mount["name"]: mount["mountPath"] for mount in lander["volumeMounts"]}
    assert set(mounts) == {"data", "audit-segments"}
    log_dirs = next(word for word in broker["args"] if word.startswith("log.dirs=")).removeprefix("log.dirs=")
    assert lander["args"][:2] == [f"{log_dirs}/audit", f"{mounts['audit-segments']}/shop"]
    assert {"name": "audit-segments", "persistentVolumeClaim": {"claimName": "audit"}} in pod["volumes"]
    assert pod["terminationGracePeriodSeconds"] > plain["terminationGracePeriodSeconds"]
    assert broker == plain["containers"][0]
    assert "initContainers" not in plain
    assert broker["name"] != lander["name"]


def test_one_lander_deletes_old_segments_and_a_missing_secret_does_not_block_brokers() -> None:
    limits = {"limits": {"memory": "512Mi"}}
    pod = landing(uri="s3://audit", secretName="keys", retentionDays=30, quota="10Gi", resources=limits)
    (lander,) = pod["initContainers"]
    (secret,) = [volume for volume in pod["volumes"] if "secret" in volume]
    assert secret["secret"] == {"secretName": "keys", "optional": True}
    path = next(mount["mountPath"] for mount in lander["volumeMounts"] if mount["name"] == secret["name"])
    words = lander["args"]
    assert words[:2] == ["--variables", path]
    assert words[words.index("--ordinal") + 1] == "$(POD_INDEX)"
    assert "POD_INDEX" in [variable["name"] for variable in lander["env"]]
    assert words[-4:] == ["--retention-days", "30", "--quota-bytes", str(10 * 2**30)]
    assert lander["resources"]["limits"]["memory"] == "512Mi"


def test_the_landers_arguments_are_those_of_the_audit_pipeline() -> None:
    pod = landing(uri="s3://audit/shop?region=eu-west-1", secretName="keys", retentionDays=30, quota="10Gi")
    (lander,) = pod["initContainers"]
    *_, command = lander["command"]
    kept = parser().parse_args([command, *(word.replace("$(POD_INDEX)", "2") for word in lander["args"])])
    given = parser().parse_args(["land", "--follow", *kept.land])
    assert str(kept.variables) in {mount["mountPath"] for mount in lander["volumeMounts"]}
    assert (given.target, given.ordinal, given.upkeep) == ("s3://audit/shop?region=eu-west-1", 2, True)
    assert (given.retention_days, given.quota_bytes) == (30, 10 * 2**30)


def test_secrets_of_observers_are_mounted_into_brokers_only() -> None:
    of = children(observers={"secretNames": ["audit", "my.keys"]})
    pod = template(of, "shop-brokers")["spec"]
    (broker,) = pod["containers"]
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert [secret["secretName"] for secret in secrets.values()] == ["audit", "my.keys"]
    assert all(secret["optional"] for secret in secrets.values())
    mounts = {mount["name"]: mount["mountPath"] for mount in broker["volumeMounts"]}
    assert [mounts[name] for name in secrets] == [f"/etc/sluicegate-observers/{name}" for name in ("audit", "my.keys")]
    assert template(of, "shop-controllers") == template(children(), "shop-controllers")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"audit": {"landing": {"claimName": "audit"}}}, "spec.audit"),
        ({"observers": {"secretNames": ["audit"]}}, "spec.observers"),
        ({"observers": {"allowConfigMapCode": True}}, "spec.observers"),
    ],
)
def test_a_roll_for_what_stands_beside_the_broker_names_the_field(spec: dict[str, Any], field: str) -> None:
    running, wanted = (decode_revision(revision(children(**each), "shop-brokers")) for each in ({}, spec))
    assert wanted is not None
    assert [str(reason) for reason in restart_reasons(running, wanted)] == [f"ConfigChanged ({field})"]
    nothing = revision(children(observers={"allowConfigMapCode": False}), "shop-brokers")
    assert decode_revision(nothing) == running
    assert revision(children(**spec), "shop-controllers") == revision(children(), "shop-controllers")
