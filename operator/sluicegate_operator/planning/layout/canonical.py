"""Canonical spelling of manifests: two that differ only in spelling restart no node.

These have several spellings: quantities (1000m and 1), configuration values ("03" and "3", "True" and "true"), and
names of images and URIs. This is also true for explicit defaults, the order of unordered lists, and empty lists and
mappings. Only comparisons use the canonical spelling; nodes are started with the spelling of the manifest.
"""

import re
from collections.abc import Mapping

from sluicegate_operator.api.configs.config_defaults import BROKER_DEFAULTS
from sluicegate_operator.api.configs.config_keys import BROKER_CONFIG, LISTENER_PREFIX, TOPIC_CONFIG
from sluicegate_operator.api.models.broker_cluster import BrokerCluster, Brokers, Controllers, ObserversSettings
from sluicegate_operator.api.models.parts.audit_landing import AuditLanding, AuditSettings
from sluicegate_operator.api.models.parts.pod_settings import PodSettings, Toleration
from sluicegate_operator.api.schema.addresses import canonical_host
from sluicegate_operator.api.schema.config_values import ConfigValue
from sluicegate_operator.api.schema.quantities import amount, canonical_quantity, is_quantity
from sluicegate_operator.api.schema.resource_amounts import Resources
from sluicegate_operator.planning.layout.cluster_layout import ClusterLayout
from sluicegate_operator.planning.layout.listener_security import AUDIENCES, CLAIM, KEYS_URL
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, node_revision
from sluicegate_operator.planning.layout.store_places import canonical_uri
from sluicegate_operator.resources.container_resources import BROKER, CONTROLLER, LANDER, container_resources
from sluicegate_operator.resources.nodes.placement import NODE

_DEFAULT_CLAIM = "sub"
_URL = re.compile(r"([A-Za-z]+)://([^/?#@]*@)?([^/?#]*)(.*)", re.DOTALL)
"""Scheme, user, host with port, and the rest."""
_ENCODED, _UNRESERVED = re.compile("%([0-9A-Fa-f]{2})"), re.compile("[A-Za-z0-9._~-]")
_DOCKER_HUB, _LIBRARY = ("docker.io", "index.docker.io"), "library/"


def same_broker_value(key: str, one: str | None, other: str | None) -> bool:
    """Return whether two texts are the same value of a broker's key.

    None stands for a key that is not set; values of unknown keys are compared as text.
    """
    return _same(BROKER_CONFIG.get(key), one, other)


def same_topic_value(key: str, one: str | None, other: str | None) -> bool:
    """Return whether two texts are the same value of a topic's key, like `same_broker_value`."""
    return _same(TOPIC_CONFIG.get(key), one, other)


def _same(value: ConfigValue | None, one: str | None, other: str | None) -> bool:
    if one == other or one is None or other is None or value is None:
        return one == other
    return value.canonical(one) == value.canonical(other)


def canonical_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a node's properties in canonical spelling, without those that equal the broker's default."""
    canonical = {key: _canonical_value(key, text) for key, text in properties.items()}
    return {key: text for key, text in canonical.items() if text not in (BROKER_DEFAULTS.get(key), _default_of(key))}


def _canonical_value(key: str, text: str) -> str:
    if key.startswith(LISTENER_PREFIX) and key.endswith(f".{AUDIENCES}"):
        return ",".join(sorted({audience.strip() for audience in text.split(",")}))
    if key.startswith(LISTENER_PREFIX) and key.endswith(f".{KEYS_URL}"):
        return canonical_url(text)
    return BROKER_CONFIG[key].canonical(text) if key in BROKER_CONFIG else text


def canonical_url(url: str) -> str:
    """Return the same text for all spellings of a URL (RFC 3986, 6.2).

    Scheme and host are in lower case, the default port of the scheme and a `/` as the whole path are left out, and no
    character is percent-encoded without need. The issuer, which tokens contain, is compared as text.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return url
    scheme, user, host, rest = match.groups(default="")
    rest = _ENCODED.sub(_as_short_as_possible, rest.removesuffix("/") if rest == "/" else rest)
    return f"{scheme.lower()}://{user}{canonical_host(host, scheme.lower())}{rest}"


def _as_short_as_possible(encoded: re.Match[str]) -> str:
    """Return a percent-encoded character as itself if it means the same, else with upper-case digits."""
    character = chr(int(encoded[1], 16))
    return character if _UNRESERVED.fullmatch(character) else encoded[0].upper()


def _default_of(key: str) -> str | None:
    """Return the broker's default of a listener's key that the operator sets; None for other keys."""
    return _DEFAULT_CLAIM if key.startswith(LISTENER_PREFIX) and key.endswith(f".{CLAIM}") else None


def process_revision(properties: Mapping[str, str]) -> NodeRevision:
    """Return the revision of a node that is a process, which consists of its properties alone."""
    return node_revision(canonical_properties(properties))


def canonical_layout(layout: ClusterLayout) -> ClusterLayout:
    return layout.with_properties(
        canonical_properties(layout.broker_properties), canonical_properties(layout.controller_properties)
    )


def canonical_cluster(cluster: BrokerCluster) -> BrokerCluster:
    """Return the cluster with every field that affects its pods in canonical spelling.

    spec.config stays unchanged: canonical_layout spells its values.
    """
    spec = cluster.spec
    changed = {
        "image": canonical_image(spec.image),
        "brokers": _brokers(spec.brokers),
        "controllers": _controllers(spec.controllers),
        "image_pull_secrets": _as_set(spec.image_pull_secrets),
        "observers": _observers(spec.observers),
        "audit": _audit(spec.audit),
    }
    return cluster.model_copy(update={"spec": spec.model_copy(update=changed)})


def canonical_resources(given: Resources | None, otherwise: Resources) -> Resources | None:
    """Return the resources without what the container gets anyway; None if nothing is left.

    The container gets anyway: amounts that equal the operator's defaults, and a request that equals the limit, because
    Kubernetes uses a limit as the default of the request.
    """
    own, wanted = container_resources(None, otherwise), container_resources(given, otherwise)
    parts: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for name in {name for amounts in wanted.values() for name in amounts}:
        amounts = {part: canonical_amount(wanted.get(part, {}).get(name)) for part in parts}
        if amounts == {part: canonical_amount(own.get(part, {}).get(name)) for part in parts}:
            continue
        if amounts["requests"] == amounts["limits"]:
            amounts["requests"] = None
        for part, said_amount in amounts.items():
            if said_amount is not None:
                parts[part][name] = said_amount
    requests, limits = parts["requests"] or None, parts["limits"] or None
    # Not validated: the canonical text of an amount may be longer than the API allows.
    return Resources.model_construct(requests=requests, limits=limits) if requests or limits else None


def canonical_amount(text: str | None) -> str | None:
    return canonical_quantity(text) if text is not None and is_quantity(text) else text


def canonical_image(name: str | None) -> str | None:
    """Return the shortest name of an image, as container runtimes read names.

    An image without a registry is one of docker.io, a single name there one of its folder `library`. Without tag and
    digest it is the one with the tag `latest`. Beside a digest a tag means nothing. A registry is a host, whose case
    means nothing, and runtimes connect to port 443 by default. A short name such as `harbor` keeps its port, without
    which it would be a folder of docker.io.
    """
    if name is None:
        return None
    place, at, digest = name.partition("@")
    folder, slash, tagged = place.rpartition("/")
    if digest or tagged.endswith(":latest"):
        place = f"{folder}{slash}{tagged.partition(':')[0]}"
    registry, _, rest = place.partition("/")
    if _names_registry(place):
        registry = canonical_host(registry, "https")
        if not _names_registry(f"{registry}/"):
            registry = f"{registry}:443"
        place = f"{registry}/{rest}"
    if registry in _DOCKER_HUB and not _names_registry(rest):
        place = rest
    if place.startswith(_LIBRARY) and "/" not in (official := place.removeprefix(_LIBRARY)):
        place = official
    return f"{place}{at}{digest}"


def _names_registry(place: str) -> bool:
    first, slash, _ = place.partition("/")
    return bool(slash) and (first == "localhost" or "." in first or ":" in first)


def _brokers(brokers: Brokers | None) -> Brokers | None:
    if brokers is None:
        return None
    pod = _pod(brokers.pod)
    if pod is not None and pod.spread == "None" and brokers.rack is not None and brokers.rack.topology_key == NODE:
        # Racks that are nodes spread the brokers over nodes anyway.
        pod = pod.model_copy(update={"spread": "Preferred"})
    return brokers.model_copy(update={"resources": canonical_resources(brokers.resources, BROKER), "pod": pod})


def _controllers(controllers: Controllers | None) -> Controllers | None:
    if controllers is None:
        return None
    resources = canonical_resources(controllers.resources, CONTROLLER)
    return controllers.model_copy(update={"resources": resources, "pod": _pod(controllers.pod)})


def _pod(pod: PodSettings | None) -> PodSettings | None:
    if pod is None:
        return None
    tolerations = {_toleration(one) for one in pod.tolerations or ()}
    tolerations = {one for one in tolerations if not any(_covers(other, one) for other in tolerations - {one})}
    return pod.model_copy(
        update={
            "node_selector": pod.node_selector or None,
            "labels": pod.labels or None,
            "annotations": pod.annotations or None,
            "tolerations": tuple(sorted(tolerations, key=Toleration.model_dump_json)) or None,
        }
    )


def _toleration(one: Toleration) -> Toleration:
    return one.model_copy(update={"value": one.value or None})


def _covers(one: Toleration, other: Toleration) -> bool:
    """Return whether a pod that has `one` tolerates no more with `other`, and for no shorter time."""
    same_value = one.operator == "Exists" or (one.operator, one.value) == (other.operator, other.value)
    seconds, others_seconds = one.toleration_seconds, other.toleration_seconds
    # The shortest time of all tolerations that match a taint counts.
    no_shorter = others_seconds is None or (seconds is not None and seconds <= others_seconds)
    return one.key in (None, other.key) and same_value and one.effect in (None, other.effect) and no_shorter


def _observers(observers: ObserversSettings | None) -> ObserversSettings | None:
    """Return the observer settings in canonical spelling.

    Names of wheels keep their order, because Python imports a module from the first wheel that has it.
    """
    if observers is None:
        return None
    changed: dict[str, object] = {"secret_names": _as_set(observers.secret_names)}
    if observers.wheels is not None:
        files = tuple(dict.fromkeys(observers.wheels.files))
        changed["wheels"] = observers.wheels.model_copy(update={"files": files})
    return observers.model_copy(update=changed)


def _audit(audit: AuditSettings | None) -> AuditSettings | None:
    if audit is None:
        return None
    landing: AuditLanding = audit.landing.model_copy(
        update={
            "uri": canonical_uri(audit.landing.uri) if audit.landing.uri is not None else None,
            "quota": _whole_bytes(audit.landing.quota),
            "image": canonical_image(audit.landing.image),
            "resources": canonical_resources(audit.landing.resources, LANDER),
        }
    )
    return audit.model_copy(update={"landing": landing})


def _whole_bytes(quota: str | None) -> str | None:
    """Return the quota in whole bytes, as landers are given it."""
    return canonical_quantity(str(int(amount(quota)))) if quota is not None and is_quantity(quota) else quota


def _as_set(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return tuple(sorted(set(names or ()))) or None
