"""Other spellings of the same manifest, for every field of every kind: what a model's type and a field's name allow.

`respellings` yields manifests that mean the same as a given one. Nothing is listed by kind: a new field gets the
spellings of its type, and those of the field names below if it has such a name.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any

from pydantic_core import PydanticUndefined

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.schema.quantities import amount, is_quantity
from sluicegate_operator.api.schema.rules import Model
from tests.support.manifests.bad_manifests import Json

SETS = frozenset(
    {
        "imagePullSecrets",
        "secretNames",
        "tolerations",
        "audiences",
        "trusted",
        "loadBalancerSourceRanges",
        "bootstrapServers",
        "acls",
        "operations",
        "apiKeys",
        "listeners",
        "principals",
        "topicPrefixes",
        "matchExpressions",
        "values",
        "topics",
        "trustedCertificates",
    }
)
"""Fields whose lists have no order, and in which an item that occurs twice means no more."""
NEVER_TWICE = frozenset({"trustedCertificates", "matchExpressions"})
EMPTY_IS_ABSENT = frozenset(
    {
        "pod",
        "resources",
        "requests",
        "limits",
        "nodeSelector",
        "labels",
        "annotations",
        "tolerations",
        "imagePullSecrets",
        "secretNames",
        "observers",
        "controllers",
        "connectionQuota",
        "rollout",
        "storage",
        "config",
        "audiences",
        "filter",
        "apiKeys",
        "listeners",
        "principals",
        "topicPrefixes",
        "tags",
        "tagsFromNodeLabels",
        "quotas",
        "objectives",
        "mirrors",
    }
)
"""Fields that mean the same if they are empty, `{}` or `[]`, as if they are absent."""
OWN_NAMES = ("Topic.spec.topicName", "KafkaUser.spec.userName", "ObserverPlugin.spec.name")
"""Fields that mean the same if they are absent as if they have the object's own name."""


def respellings(manifest: Json) -> Iterator[tuple[str, Json]]:
    """Yield manifests that mean the same, each with the path and a word about the difference."""
    [model] = _models(KINDS[manifest["kind"]].model.model_fields["spec"].annotation)
    for name, spec in _of_model(model, manifest["spec"], "spec", manifest):
        yield name, manifest | {"spec": spec}


def _of_model(model: type[Model], value: Json, path: str, manifest: Json) -> Iterator[tuple[str, Json]]:
    for name, field in model.model_fields.items():
        key = field.alias or name
        where, inner = f"{path}.{key}", _models(field.annotation)
        if key not in value:
            yield f"{where} null", value | {key: None}
            if field.default not in (None, PydanticUndefined) and not field.is_required():
                yield f"{where} default", value | {key: field.default}
            elif f"{manifest['kind']}.{where}" in OWN_NAMES:
                yield f"{where} own name", value | {key: manifest["metadata"]["name"]}
            elif key in EMPTY_IS_ABSENT:
                yield f"{where} empty", value | {key: [] if _is_list(field.annotation) else {}}
            continue
        found = value[key]
        if inner and isinstance(found, Mapping):
            others: Iterator[tuple[str, Any]] = _of_model(inner[0], dict(found), where, manifest)
        elif inner and isinstance(found, Sequence) and not isinstance(found, str):
            others = _of_items(inner[0], found, where, key, manifest)
        else:
            others = _of_value(key, found, where)
        yield from ((word, value | {key: other}) for word, other in others)


def _of_items(
    model: type[Model], items: Sequence[Any], where: str, key: str, manifest: Json
) -> Iterator[tuple[str, list[Any]]]:
    for at, item in enumerate(items):
        for word, other in _of_model(model, item, f"{where}[{at}]", manifest):
            yield word, [*items[:at], other, *items[at + 1 :]]
    if key in SETS:
        yield from _as_set(key, items, where)


def _as_set(key: str, items: Sequence[Any], where: str) -> Iterator[tuple[str, list[Any]]]:
    if len(items) > 1:
        yield f"{where} reversed", list(reversed(items))
    if key not in NEVER_TWICE:
        yield f"{where} twice", [*items, *items[:1]]


def _of_value(key: str, value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield f"{where} reversed", dict(reversed(list(value.items())))
        for name, one in value.items():
            for word, other in _of_text(name, one, f"{where}[{name}]") if isinstance(one, str) else ():
                yield word, {**value, name: other}
    elif isinstance(value, (list, tuple)):
        if key in SETS:
            yield from _as_set(key, value, where)
        for at, one in enumerate(value):
            for word, other in _of_text(key, one, f"{where}[{at}]") if isinstance(one, str) else ():
                yield word, [*value[:at], other, *value[at + 1 :]]
    elif isinstance(value, str):
        yield from _of_text(key, value, where)
    elif isinstance(value, int) and not isinstance(value, bool) and key in _NUMBERS:
        yield f"{where} float", float(value)


_NUMBERS = frozenset({"controllerMutationRate", "target", "latencyMs", "requestsPerMillion"})


def _of_text(key: str, text: str, where: str) -> Iterator[tuple[str, str]]:
    for kind, others in (_of_quantity, _of_address, _of_url, _of_image, _of_time, _of_store, _of_api, _of_listener):
        if kind(key, text):
            yield from ((f"{where} {other}", other) for other in others(text) if other != text)


def _quantities(text: str) -> Iterator[str]:
    value = amount(text)
    yield f"{value:f}"
    yield f"{value * 1000:f}m".replace(".000m", "m")
    yield f"{text.rstrip('mkMGTPEKi')}.0{text[len(text.rstrip('mkMGTPEKi')) :]}" if "." not in text else f"0{text}"


_QUANTITIES = frozenset({"size", "quota", "cpu", "memory", "ephemeral-storage"})
_of_quantity = (lambda key, text: key in _QUANTITIES and is_quantity(text), _quantities)


def _is_address(key: str, text: str) -> bool:
    try:
        ip_address(text.partition("/")[0])
    except ValueError:
        return False
    return key in ("ip", "cidr", "trusted", "host")


def _addresses(text: str) -> Iterator[str]:
    address, slash, length = text.partition("/")
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        yield from (f"{one}{slash}{length}" for one in (found.exploded, found.exploded.upper(), address.upper()))


_of_address = (_is_address, _addresses)


def _urls(text: str) -> Iterator[str]:
    scheme, _, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    yield f"{scheme}://{host.upper()}{slash}{path}"
    yield f"{scheme}://{host}:443{slash}{path}"
    yield f"{scheme}://{host}:0443{slash}{path}"


_of_url = (lambda key, text: key == "jwksEndpointUri", _urls)


def _images(text: str) -> Iterator[str]:
    registry, slash, rest = text.partition("/")
    if slash and "." in registry:
        yield f"{registry.upper()}/{rest}"
        if ":" not in registry:
            yield f"{registry}:443/{rest}"
    elif "/" not in text:
        yield f"docker.io/library/{text}"
        yield f"Docker.IO/library/{text}"
    if "@" not in text and ":" not in text.rpartition("/")[2]:
        yield f"{text}:latest"


_of_image = (lambda key, text: key == "image", _images)


def _times(text: str) -> Iterator[str]:
    if text.endswith("Z"):
        yield text.replace("Z", "+00:00")
        yield text.replace("Z", ".000Z")


_of_time = (lambda key, text: key == "expiresAt", _times)


def _stores(text: str) -> Iterator[str]:
    place, question, options = text.partition("?")
    yield f"{place}/{question}{options}"
    yield f"{text}{'&' if question else '?'}"
    if options:
        yield f"{place}?{'&'.join(reversed(options.split('&')))}"


def _apis(text: str) -> Iterator[str]:
    if text.isdecimal():
        yield f"0{text}"
        return
    yield from (text.upper(), text.lower())


_of_api = (lambda key, text: key == "apiKeys", _apis)
_of_listener = (lambda key, text: key == "listeners", lambda text: iter((text.lower(),)))
_of_store = (lambda key, text: key == "uri" and text.startswith("s3://"), _stores)


def _models(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for one in getattr(annotation, "__args__", ()) for model in _models(one)]


def _is_list(annotation: Any) -> bool:
    return "tuple[" in str(annotation)
