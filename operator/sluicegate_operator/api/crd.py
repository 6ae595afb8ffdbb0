"""Generates the CustomResourceDefinitions from the models: structural schemas, CEL rules, columns, names. Pure."""

from collections.abc import Mapping
from typing import Any

import yaml

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.schema.metadata import GROUP, VERSION, PrinterColumn, Resource

Json = dict[str, Any]

KUBERNETES_MIN = "1.31"
"""The oldest version of Kubernetes whose API server accepts the CRDs: 1.30 has no isIP() and isCIDR() in CEL."""

_HEAD = "# Generated from operator/sluicegate_operator/api by `sluicegate crds`; do not edit.\n"
_ROOT = {
    "apiVersion": {"type": "string", "description": f"Always {GROUP}/{VERSION}."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}
_KEPT = (
    "type",
    "format",
    "description",
    "default",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "x-kubernetes-validations",
)


def render_crds() -> dict[str, str]:
    """Return the text of each file in crds/, by file name."""
    return {
        f"{GROUP}_{kind.plural}.yaml": _HEAD
        + yaml.safe_dump(definition(name), sort_keys=False, width=110, allow_unicode=True)
        for name, kind in KINDS.items()
    }


def definition(kind: str) -> Json:
    model = KINDS[kind].model
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{model.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": model.plural,
                "singular": kind.lower(),
                "shortNames": [model.short_name],
                "categories": ["sluicegate"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": _subresources(model),
                    "additionalPrinterColumns": [_column(column) for column in model.columns],
                    "schema": {"openAPIV3Schema": schema(model)},
                }
            ],
        },
    }


def _subresources(model: type[Resource]) -> Json:
    found: Json = {"status": {}}
    if model.scale is not None:
        found["scale"] = {
            "specReplicasPath": model.scale.spec_replicas,
            "statusReplicasPath": model.scale.status_replicas,
            "labelSelectorPath": model.scale.selector,
        }
    return found


def _column(column: PrinterColumn) -> Json:
    shown: Json = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    return shown | {"priority": column.priority} if column.priority else shown


def schema(model: type[Resource]) -> Json:
    """Return the structural schema of a kind. Its description is the docstring of the class."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    spec = _structural(raw["properties"]["spec"], raw["$defs"])
    status = _without_defaults(_structural(raw["properties"]["status"], raw["$defs"]))
    conditions = status["properties"]["conditions"]
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    # kstatus: an object that no operator has seen yet must not look finished.
    status["default"] = {"observedGeneration": -1}
    root: Json = {
        "type": "object",
        "description": _one_line(raw["description"]),
        "required": ["spec"],
        "properties": {**_ROOT, "spec": spec, "status": status},
    }
    if "x-kubernetes-validations" in raw:
        root["x-kubernetes-validations"] = raw["x-kubernetes-validations"]
    return root


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Json:
    """Return one node without the parts that structural schemas refuse.

    These are references, unions with null, titles and others.
    """
    flat = _resolved(node, definitions)
    result: Json = {key: flat[key] for key in _KEPT if key in flat}
    if "const" in flat:
        result["enum"] = [flat["const"]]
    if not result.get("default"):
        # An empty or false default shows up as drift in GitOps tools and has no effect.
        result.pop("default", None)
    if "description" in result:
        result["description"] = _one_line(result["description"])
    if flat.get("properties"):
        result["properties"] = {name: _structural(child, definitions) for name, child in flat["properties"].items()}
    if "items" in flat:
        result["items"] = _structural(flat["items"], definitions)
    if isinstance(flat.get("additionalProperties"), Mapping):
        result["additionalProperties"] = _structural(flat["additionalProperties"], definitions)
    return result


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Json:
    """Return the node with its references resolved. The field's own keys override those of its type."""
    flat = dict(node)
    while "$ref" in flat or "anyOf" in flat:
        if "$ref" in flat:
            inner = definitions[flat.pop("$ref").removeprefix("#/$defs/")]
        else:
            (inner,) = [option for option in flat.pop("anyOf") if option.get("type") != "null"]
        flat = {**inner, **flat}
    return flat


def _without_defaults(node: Json) -> Json:
    """Return the node without defaults: in a status they would look like values that the operator wrote."""
    result: Json = {key: value for key, value in node.items() if key != "default"}
    if "properties" in result:
        result["properties"] = {name: _without_defaults(child) for name, child in result["properties"].items()}
    if "items" in result:
        result["items"] = _without_defaults(result["items"])
    return result


def _one_line(text: str) -> str:
    return " ".join(text.split())
