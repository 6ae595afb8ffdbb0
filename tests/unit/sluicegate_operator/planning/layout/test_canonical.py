"""Manifests that differ only in spelling restart no node: every key of the configuration, every field of the spec."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS, ConfigKey
from broker_runtime.config.keys.authorizer import principals
from broker_runtime.config.keys.requests import items_overrides
from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.api.configs.config_defaults import BROKER_DEFAULTS
from sluicegate_operator.api.configs.config_keys import BROKER_CONFIG, DYNAMIC_CONFIG_KEYS, TOPIC_CONFIG, WINDOW_KEYS
from sluicegate_operator.api.configs.config_orders import BROKER_ORDERS
from sluicegate_operator.api.models.broker_cluster import BrokerClusterSpec
from sluicegate_operator.api.schema.config_values import ConfigValue, Matching, WholeNumber
from sluicegate_operator.api.schema.quantities import amount, canonical_quantity
from sluicegate_operator.api.schema.rules import Model
from sluicegate_operator.planning.layout.broker_config import plan_broker_config
from sluicegate_operator.planning.layout.canonical import same_broker_value, same_topic_value
from sluicegate_operator.planning.layout.children import wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import Role, plan_cluster
from sluicegate_operator.planning.layout.preview_nodes import NodeKind, preview_restarts
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, decode_revision, restart_reasons
from sluicegate_operator.planning.limits.limits import ObservedLimits
from sluicegate_operator.planning.topics.topics import ObservedTopic, diff_topic
from tests.support.manifests.bad_manifests import Json, cluster, external, topic

STATIC = sorted(set(BROKER_CONFIG) - DYNAMIC_CONFIG_KEYS)
LANDING = {"claimName": "audit"}


def shop(**spec: Any) -> BrokerCluster:
    found = parse_resource(cluster(**spec))
    assert isinstance(found, BrokerCluster)
    return found


def revisions(of: BrokerCluster) -> dict[Role, NodeRevision]:
    layout = plan_cluster(of, [])
    return {role: wanted_revision(of, layout, role) for role in Role}


def reasons(before: BrokerCluster, after: BrokerCluster) -> list[str]:
    """Reasons why nodes that were started with the one would restart for the other."""
    return _reasons(revisions(before), revisions(after))


def _reasons(before: Mapping[Role, NodeRevision], after: Mapping[Role, NodeRevision]) -> list[str]:
    started = {role: decode_revision(revision.encode()) for role, revision in before.items()}
    return [str(reason) for role in Role for reason in restart_reasons(started[role], after[role])]


def assert_same(*spellings: BrokerCluster) -> None:
    """Assert that no node restarts, in any order of them, and that the preview agrees, for pods and processes."""
    found = [revisions(one) for one in spellings]
    for before, after in permutations(found, 2):
        assert _reasons(before, after) == []
    for other in spellings[1:]:
        for kind in NodeKind:
            assert preview_restarts((spellings[0], ()), (other, ()), None, kind).restarts == ()


def spelled(text: str, value: ConfigValue) -> Iterator[str]:
    """Other texts of the same value."""
    if isinstance(value, WholeNumber):
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
        if len(digits) < 18:
            yield f"{sign}0{digits}"
            yield f"{sign or '+'}{digits}"
    if not isinstance(value, Matching):
        return
    match value.meaning:
        case "word":
            yield from (text.upper(), text.capitalize())
        case "number":
            yield f"{text}0" if "." in text else f"{text}.0"
        case "list":
            yield text.replace(",", " ,  ")
            yield ",".join((text, text))
        case "counts":
            yield from (" , ".join(pairs) + "," for pairs in permutations(text.split(",")[:3]) if text.count(",") < 3)
            yield text.replace(":", ":0") + f",{text}"
        case "principals" if text:
            yield from (f" {text};", f"{text};{text}", *(" ; ".join(items) for items in permutations(text.split(";"))))
        case "set":
            yield from (" , ".join(items) for items in permutations(text.split(",")))


def values(value: ConfigValue) -> list[str]:
    """Two accepted texts with different meanings."""
    if isinstance(value, WholeNumber):
        low = max(value.low, 1)
        return [str(low), str(low + 1)]
    candidates = ["true", "false", "0.25", "0.5", "100", "200.5", "classic", "classic,consumer", "range,uniform"]
    candidates += ["uniform", "delete", "compact,delete", "CreateTime", "LogAppendTime", "lz4", "zstd", "header", "all"]
    candidates += ["upgrade", "downgrade", "close", "empty", "Fetch:2000", "Fetch:2000,Produce:3000"]
    candidates += ["User:alice;User:bob", "User:bob", "org.apache.kafka.metadata.authorizer.StandardAuthorizer", ""]
    return [text for text in candidates if value.accepts(text)][:2]


def in_order(key: str, text: str) -> Json:
    """A configuration with that value, without order rules that it would break."""
    config = {key: text}
    return {} if any(order.wrong(config) for order in BROKER_ORDERS) else {"config": config}


@pytest.mark.parametrize("key", STATIC)
def test_another_spelling_of_a_value_restarts_nothing_and_another_value_does(key: str) -> None:
    value = BROKER_CONFIG[key]
    default = BROKER_DEFAULTS.get(key)
    one, other = values(value)
    for text in {one, other, default} - {None}:
        assert text is not None
        assert_same(*(shop(**in_order(key, spelling)) for spelling in (text, *spelled(text, value))))
    if in_order(key, one) and in_order(key, other):
        assert any(key in reason for reason in reasons(shop(**in_order(key, one)), shop(**in_order(key, other))))


@pytest.mark.parametrize("key", STATIC)
def test_a_default_that_is_written_out_restarts_nothing(key: str) -> None:
    default = BROKER_DEFAULTS.get(key)
    if default is None:
        assert BROKER_KEYS[key].default is None
        return
    config = {"config": {key: default}}
    assert_same(shop(), shop(**config))
    properties = plan_cluster(shop(**config), []).broker_properties
    assert properties[key] == default, "another version of the broker may have another default"


@pytest.mark.parametrize(("keys", "table"), [(BROKER_KEYS, BROKER_CONFIG), (TOPIC_KEYS, TOPIC_CONFIG)])
def test_texts_are_the_same_value_if_they_are_to_the_broker(
    keys: Mapping[str, ConfigKey], table: Mapping[str, ConfigValue]
) -> None:
    for key, value in table.items():
        texts = [text for one in values(value) for text in (one, *spelled(one, value))]
        same = same_broker_value if table is BROKER_CONFIG else same_topic_value
        for one, other in permutations(texts, 2):
            assert same(key, one, other) == (parsed(keys[key], value, one) == parsed(keys[key], value, other)), key


def parsed(key: ConfigKey, value: ConfigValue, text: str) -> object:
    found = key.parse(text)
    meaning = value.meaning if isinstance(value, Matching) else ""
    items = found if isinstance(found, tuple) else ()
    if meaning == "set":
        return frozenset(items)
    if meaning == "list":
        return list(dict.fromkeys(items))
    if meaning == "counts":
        return items_overrides(items)
    if meaning == "principals":
        return principals(str(found))
    return str(found).lower() if meaning == "word" else found


def test_defaults_are_the_brokers() -> None:
    expected = {}
    for key in {*STATIC, *WINDOW_KEYS, *(key for order in BROKER_ORDERS for key in order.defaults)}:
        text = BROKER_KEYS[key].render(BROKER_KEYS[key].default)
        if text is not None:
            expected[key] = BROKER_CONFIG[key].canonical(text) if key in BROKER_CONFIG else text
    assert expected == BROKER_DEFAULTS


def brokers(**said: Any) -> Json:
    return {"brokers": {"replicas": 3, "storage": {"size": "10Gi"}} | said}


def resources(requests: Json | None = None, limits: Json | None = None) -> Json:
    parts = {"requests": requests, "limits": limits}
    return brokers(resources={part: amounts for part, amounts in parts.items() if amounts is not None})


LANDERS = {"requests": {"cpu": "0.05", "memory": "256Mi"}, "limits": {"cpu": "2000m", "memory": "2048Mi"}}
TAINTS: list[Json] = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "operator": "Exists"}]
DIGEST, OTHER_DIGEST = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
EQUAL: dict[str, list[Json]] = {
    "amounts of a container": [
        resources({"cpu": "1", "memory": "1Gi"}),
        resources({"cpu": "1000m", "memory": "1024Mi"}),
        resources({"cpu": "1.0", "memory": "1073741824"}),
    ],
    "amounts that a container has anyway": [
        {},
        resources({}, {}),
        resources({"cpu": "100m", "memory": "128Mi"}, {"cpu": "2000m", "memory": "1024Mi"}),
        resources({"cpu": "0.1"}, {"cpu": "2"}),
    ],
    "a limit that is the request": [resources(None, {"cpu": "4"}), resources({"cpu": "4000m"}, {"cpu": "4"})],
    "amounts of a controller": [
        {"controllers": {"resources": {"limits": {"memory": "1Gi"}}}},
        {"controllers": {"replicas": 1, "resources": {"limits": {"memory": "1024Mi"}}}},
    ],
    "pods": [
        brokers(pod={"tolerations": TAINTS, "nodeSelector": {"a": "1", "b": "2"}}),
        brokers(pod={"tolerations": [*TAINTS[::-1], TAINTS[0]], "nodeSelector": {"b": "2", "a": "1"}, "labels": {}}),
        brokers(
            pod={
                "spread": "Preferred",
                "tolerations": [TAINTS[0] | {"operator": "Equal", "value": ""}, TAINTS[1]],
                "nodeSelector": {"a": "1", "b": "2"},
                "annotations": {},
            }
        ),
    ],
    "pods of which nothing is said": [
        {},
        brokers(pod={}),
        brokers(pod={"tolerations": [], "nodeSelector": {}, "labels": {}, "annotations": {}, "spread": "Preferred"}),
    ],
    "Secrets of the image": [
        {"imagePullSecrets": ["one", "two"]},
        {"imagePullSecrets": ["two", "one", "two"]},
    ],
    "no Secrets of the image": [{}, {"imagePullSecrets": []}],
    "observers": [
        {"observers": {"secretNames": ["one", "two"]}},
        {"observers": {"secretNames": ["two", "one"], "allowConfigMapCode": False}},
    ],
    "wheels": [
        {"observers": {"wheels": {"claimName": "code", "files": ["one.whl", "two.whl"]}}},
        {"observers": {"wheels": {"claimName": "code", "files": ["one.whl", "two.whl", "one.whl"]}}},
    ],
    "no observers": [{}, {"observers": {}}, {"observers": {"secretNames": []}}],
    "a landing": [
        {"audit": {"landing": LANDING | {"quota": "1Gi"}}},
        {"audit": {"landing": LANDING | {"quota": "1024Mi", "resources": {}}}},
        {"audit": {"landing": LANDING | {"quota": "1073741824", "resources": LANDERS}}},
    ],
    "a landing in a store": [
        {"audit": {"landing": {"uri": "s3://audit/shop?region=eu-west-1&scheme=http"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop/?scheme=http&region=eu-west-1"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?region=eu-west-1&&scheme=http&"}}},
    ],
    "a landing in a store without options": [
        {"audit": {"landing": {"uri": "s3://audit/shop"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop/?"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?&"}}},
    ],
    "a landing in a store with encoded options": [
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=http://m:9000&scheme=http"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?scheme=http&endpoint_override=http%3A%2F%2Fm%3a9000"}}},
        {"audit": {"landing": {"uri": "s3://audit/sh%6Fp/?sch%65me=http&endpoint_override=http:%2F%2Fm:9000"}}},
    ],
    "an endpoint of a store": [
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=https://minio.example.org"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=https://minio.example.org:443/"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=HTTPS://Minio.Example.org&scheme=https"}}},
    ],
    "an endpoint of a store at an IPv6 address": [
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=http://[2001:db8::7]:9000"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=http://[2001:DB8:0::7]:09000"}}},
    ],
    "an endpoint of a store without a scheme": [
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=minio&scheme=http"}}},
        {"audit": {"landing": {"uri": "s3://audit/shop?endpoint_override=Minio:80&scheme=http"}}},
    ],
    "a quota of a landing that is no whole number of bytes": [
        {"audit": {"landing": LANDING | {"quota": "1048577"}}},
        {"audit": {"landing": LANDING | {"quota": "1048577.4"}}},
        {"audit": {"landing": LANDING | {"quota": "1048577900m"}}},
    ],
    "an image of Docker Hub": [
        {"image": "acme/sluicegate:1"},
        {"image": "docker.io/acme/sluicegate:1"},
        {"image": "index.docker.io/acme/sluicegate:1"},
    ],
    "an official image": [
        {"image": "sluicegate", "audit": {"landing": LANDING | {"image": "sluicegate-landing:1"}}},
        {
            "image": "docker.io/library/sluicegate:latest",
            "audit": {"landing": LANDING | {"image": "docker.io/library/sluicegate-landing:1"}},
        },
        {"image": "library/sluicegate", "audit": {"landing": LANDING | {"image": "docker.io/sluicegate-landing:1"}}},
    ],
    "an image by its digest": [
        {"image": f"registry.example.org:5000/acme/s@{DIGEST}"},
        {"image": f"registry.example.org:5000/acme/s:1@{DIGEST}"},
        {"image": f"registry.example.org:5000/acme/s:latest@{DIGEST}"},
    ],
    "an official image by its digest": [
        {"image": f"sluicegate@{DIGEST}"},
        {"image": f"docker.io/library/sluicegate:latest@{DIGEST}"},
    ],
    "an image of a registry in upper case": [
        {"image": "registry.example.org/acme/s:1"},
        {"image": "Registry.Example.org/acme/s:1"},
        {"image": "registry.example.org:443/acme/s:1"},
    ],
    "an image of a registry with a short name": [
        {"image": "harbor:443/acme/s:1"},
        {"image": "Harbor:0443/acme/s:1"},
    ],
    "an image of Docker Hub in upper case": [{"image": "acme/s:1"}, {"image": "Docker.IO/acme/s:1"}],
    "the newest image of a registry": [
        {"image": "registry.example.org:5000/acme/s"},
        {"image": "registry.example.org:5000/acme/s:latest"},
    ],
    "brokers whose racks are nodes": [
        brokers(rack={"topologyKey": "kubernetes.io/hostname"}),
        brokers(rack={"topologyKey": "kubernetes.io/hostname"}, pod={"spread": "None"}),
        brokers(rack={"topologyKey": "kubernetes.io/hostname"}, pod={"spread": "Preferred"}),
    ],
    "tolerations that another one covers": [
        brokers(pod={"tolerations": [{"operator": "Exists"}]}),
        brokers(pod={"tolerations": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"operator": "Exists"}]}),
        brokers(
            pod={
                "tolerations": [
                    {"operator": "Exists"},
                    {"key": "a", "operator": "Exists"},
                    {"operator": "Exists", "effect": "NoExecute"},
                ]
            }
        ),
    ],
    "a window": [
        {},
        {"connectionQuota": {}},
        {"connectionQuota": {"windowNum": 11, "windowSizeSeconds": 1, "strategy": "windowed", "ipAction": "delay"}},
    ],
    "configuration of nothing": [{}, {"config": {}}],
}


@pytest.mark.parametrize("specs", EQUAL.values(), ids=EQUAL)
def test_another_spelling_of_a_field_restarts_nothing(specs: list[Json]) -> None:
    assert_same(*(shop(**spec) for spec in specs))


DIFFERENT: list[tuple[Json, Json]] = [
    ({"image": f"acme/s:1@{DIGEST}"}, {"image": f"acme/s:1@{OTHER_DIGEST}"}),
    ({"image": f"acme/s:1@{DIGEST}"}, {"image": "acme/s:1"}),
    ({"image": f"registry.example.org:5000/s@{DIGEST}"}, {"image": f"registry.example.org:5001/s@{DIGEST}"}),
    (resources({"cpu": "1"}), resources({"cpu": "1001m"})),
    (resources(None, {"cpu": "4"}), resources({"cpu": "3"}, {"cpu": "4"})),
    ({}, resources(None, {"cpu": "100m"})),
    (brokers(pod={"tolerations": TAINTS}), brokers(pod={"tolerations": TAINTS[:1]})),
    ({}, {"connectionQuota": {"windowNum": 10}}),
    ({"imagePullSecrets": ["one"]}, {"imagePullSecrets": ["two"]}),
    (
        {"observers": {"wheels": {"claimName": "code", "files": ["one.whl", "two.whl"]}}},
        {"observers": {"wheels": {"claimName": "code", "files": ["two.whl", "one.whl"]}}},
    ),
    ({"audit": {"landing": {"uri": "s3://audit/shop"}}}, {"audit": {"landing": {"uri": "s3://audit/shop/a"}}}),
    ({"audit": {"landing": {"uri": "s3://audit/a?x=1"}}}, {"audit": {"landing": {"uri": "s3://audit/a?x=2"}}}),
    (
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=http://m:9000"}}},
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=http%3A%2F%2Fm%3A9001"}}},
    ),
    (
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=minio:80"}}},
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=minio"}}},
    ),
    (
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=http://m/Path"}}},
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=http://m/path"}}},
    ),
    (
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=m&scheme=http"}}},
        {"audit": {"landing": {"uri": "s3://audit/a?endpoint_override=m&scheme=https"}}},
    ),
    # An encoded character is not a separator.
    (
        {"audit": {"landing": {"uri": "s3://audit/a?region=x&scheme=http"}}},
        {"audit": {"landing": {"uri": "s3://audit/a?region=x%26scheme=http"}}},
    ),
    ({"audit": {"landing": {"uri": "s3://audit/a?x=a+b"}}}, {"audit": {"landing": {"uri": "s3://audit/a?x=a%2Bb"}}}),
    ({"audit": {"landing": {"uri": "s3://audit/a+b"}}}, {"audit": {"landing": {"uri": "s3://audit/a%20b"}}}),
    (
        {"audit": {"landing": LANDING | {"quota": "1048577.9"}}},
        {"audit": {"landing": LANDING | {"quota": "1048578"}}},
    ),
    ({"image": "acme/s:1"}, {"image": "docker.io/acme/s:2"}),
    ({"image": "acme/s:1"}, {"image": "quay.io/acme/s:1"}),
    ({"image": "acme/s"}, {"image": "acme/s:1"}),
    # Docker Hub may have a folder with the name of a registry.
    ({"image": "docker.io/quay.io/s:1"}, {"image": "quay.io/s:1"}),
    # A short name is a registry only with its port.
    ({"image": "harbor/s:1"}, {"image": "harbor:443/s:1"}),
    ({"image": "s:1"}, {"image": "library:443/s:1"}),
    ({"image": f"acme/s@sha256:{'a' * 64}"}, {"image": f"docker.io/acme/s@sha256:{'b' * 64}"}),
    (
        {"audit": {"landing": LANDING | {"image": "acme/s:1"}}},
        {"audit": {"landing": LANDING | {"image": "docker.io/acme/s:2"}}},
    ),
    (
        brokers(rack={"topologyKey": "kubernetes.io/hostname"}),
        brokers(rack={"topologyKey": "kubernetes.io/hostname"}, pod={"spread": "Required"}),
    ),
    (
        brokers(rack={"topologyKey": "topology.kubernetes.io/zone"}),
        brokers(rack={"topologyKey": "topology.kubernetes.io/zone"}, pod={"spread": "None"}),
    ),
    (
        brokers(pod={"tolerations": [{"key": "a", "operator": "Exists"}]}),
        brokers(pod={"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}),
    ),
    # The shorter of two times counts.
    (
        brokers(pod={"tolerations": [{"operator": "Exists"}]}),
        brokers(
            pod={
                "tolerations": [
                    {"operator": "Exists"},
                    {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
                ]
            }
        ),
    ),
    ({"audit": {"landing": LANDING | {"quota": "1Gi"}}}, {"audit": {"landing": LANDING | {"quota": "1025Mi"}}}),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_value_restarts_nodes(one: Json, other: Json) -> None:
    assert reasons(shop(**one), shop(**other))
    assert reasons(shop(**other), shop(**one))


def written_out(model: type[Model], spec: Json) -> Iterator[Json]:
    """`spec` with each field that has a default written out, also those of nested models."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key not in spec and field.default is not None and not field.is_required() and key != "runtime":
            yield spec | {key: field.default}
        inner = [one for one in getattr(field.annotation, "__args__", [field.annotation]) if _is_model(one)]
        if key in spec and inner and isinstance(spec[key], Mapping):
            yield from (spec | {key: one} for one in written_out(inner[0], spec[key]))


def _is_model(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Model)


def test_every_default_of_a_field_may_be_written_out() -> None:
    spec = shop(
        controllers={"pod": {}},
        audit={"landing": LANDING},
        observers={},
        connectionQuota={},
        rollout={},
        storage={},
        **brokers(pod={}, resources={}),
    ).spec.model_dump(by_alias=True, exclude_unset=True, mode="json")
    found = list(written_out(BrokerClusterSpec, spec))
    assert len(found) > 10
    for one in found:
        assert_same(shop(**spec), shop(**one))


@given(st.decimals(0, 10**20, places=3), st.sampled_from(["", "m", "k", "M", "Ki", "Gi"]))
def test_a_quantity_has_one_canonical_text_of_the_same_amount(number: Any, unit: str) -> None:
    text = f"{number:f}{unit}"
    canonical = canonical_quantity(text)
    assert amount(canonical) == amount(text)
    assert canonical_quantity(canonical) == canonical
    assert len({canonical_quantity(one) for one in (text, f"{amount(text):f}")}) == 1


@pytest.mark.parametrize(
    "text", ["9" * 32, f"{'9' * 30}Ei", f"{'9' * 30}Ki", f"0.{'0' * 28}1m", f"{'1' * 15}.{'1' * 15}G"]
)
def test_a_quantity_of_as_many_digits_as_a_manifest_may_have_is_compared_too(text: str) -> None:
    assert amount(canonical_quantity(text)) == amount(text)
    limited, other = ({"memory": amount_} for amount_ in (text, "7" * 32))
    assert_same(shop(**resources(limits=limited)), shop(**resources(limits=limited)))
    assert any(
        "ResourcesChanged" in why for why in reasons(shop(**resources(limits=limited)), shop(**resources(limits=other)))
    )


# -- by an operator that did not compare by value -------------------------------------------------------------------

ODD: Json = {
    "config": {"num.partitions": "03", "num.io.threads": "2", "auto.create.topics.enable": "True"},
    **resources({"cpu": "1000m"}, {"memory": "1024Mi"}),
    "imagePullSecrets": ["two", "one"],
}


@pytest.mark.parametrize("role", Role)
def test_an_update_of_the_operator_restarts_no_node_for_its_spelling(role: Role) -> None:
    wanted = wanted_revision(shop(**ODD), plan_cluster(shop(**ODD), []), role)
    assert wanted.as_written is not None
    before = decode_revision(wanted.as_written.encode())
    assert before is not None
    assert before != wanted
    assert restart_reasons(before, wanted) == ()
    # The reason names only the key whose value changed.
    changed = shop(**ODD | {"config": ODD["config"] | {"num.io.threads": "3"}})
    [reason] = restart_reasons(before, wanted_revision(changed, plan_cluster(changed, []), role))
    assert reason.keys == ("num.io.threads",)
    assert restart_reasons(replace(before, image="other"), wanted) != ()


def test_manifests_in_canonical_spelling_have_the_revision_that_they_had() -> None:
    for spec in ({}, resources({"cpu": "500m"}, {"memory": "2Gi"}), {"config": {"num.partitions": "3"}}):
        for role in Role:
            wanted = wanted_revision(shop(**spec), plan_cluster(shop(**spec), []), role)
            assert wanted.as_written in (None, wanted)


# -- while brokers run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(DYNAMIC_CONFIG_KEYS))
def test_a_dynamic_value_in_another_spelling_is_there_already(key: str) -> None:
    value = BROKER_CONFIG[key]
    one, other = values(value)
    for text in spelled(one, value):
        plan = plan_broker_config({key: text}, {0: ObservedLimits(default={key: one})}, [key])
        assert (plan.actions, plan.lagging) == ((), {})
    assert plan_broker_config({key: other}, {0: ObservedLimits(default={key: one})}, [key]).actions


def test_a_key_that_only_others_know_is_compared_letter_by_letter() -> None:
    seen = {0: ObservedLimits(default={"their.key": "3"})}
    assert plan_broker_config({"their.key": "03"}, seen, bundled=False).actions
    assert not plan_broker_config({"their.key": "3"}, seen, ["their.key"], bundled=False).actions
    found = parse_resource(external(config={"log.retention.ms": "03"}))
    assert isinstance(found, BrokerCluster)


@pytest.mark.parametrize("key", sorted(TOPIC_CONFIG))
def test_a_topics_value_in_another_spelling_is_there_already(key: str) -> None:
    value = TOPIC_CONFIG[key]
    one = values(value)[0]
    for text in spelled(one, value):
        of: Any = parse_resource(topic(config={key: text}))
        assert diff_topic(of, ObservedTopic("id", of.spec.partitions, of.spec.replicas, {key: one}), [key]) == []
