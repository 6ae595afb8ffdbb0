"""The base of every model, and rules that hold between fields: once as CEL for the API server, once as Python.

Owns the machinery only. A rule's two forms stand side by side in the model that it belongs to, and the shared table of
bad manifests is played against both. Rules of transition compare with the object as it was before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds` takes the model; `field` (in camelCase) is where the API server points at when it does not hold.

    `message_cel` and `message_of` make a sentence that names what is wrong; they are asked when the rule does not hold.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]
    field: str | None = None
    message_cel: str | None = None
    message_of: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """`holds` takes the old and the new model."""

    cel: str
    message: str
    holds: Callable[[Any, Any], bool]
    field: str | None = None


def cluster_ref_stays(otherwise: str) -> TransitionRule:
    """Of what belongs to one BrokerCluster for good; `otherwise` tells who wants another one what to do."""
    return TransitionRule(
        cel="self.clusterRef.name == oldSelf.clusterRef.name",
        message=f"clusterRef cannot be changed: {otherwise}",
        holds=lambda old, new: old.cluster_ref.name == new.cluster_ref.name,
        field="clusterRef",
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a manifest: where, and a sentence that says what to do."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Model(BaseModel):
    """camelCase in YAML, snake_case in Python, frozen, unknown fields refused (but see manifests.read_stored), nothing
    converted silently."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()
    transitions: ClassVar[tuple[TransitionRule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        resolved = handler.resolve_ref_schema(schema)
        if cls.rules or cls.transitions:
            resolved["x-kubernetes-validations"] = [
                *(_validation(rule) for rule in cls.rules),
                *(_validation(rule) for rule in cls.transitions),
            ]
        return schema


def _validation(rule: Rule | TransitionRule) -> dict[str, str]:
    validation = {"rule": rule.cel, "message": rule.message}
    if isinstance(rule, Rule) and rule.message_cel is not None:
        validation["messageExpression"] = rule.message_cel
    if rule.field is not None:
        validation["fieldPath"] = f".{rule.field}"
    return validation


def broken_rules(model: Model, old: Model | None = None, path: str = "") -> Iterator[Problem]:
    """Every rule of `model` and of the models inside it that does not hold."""
    for rule in model.rules:
        if not rule.holds(model):
            message = rule.message_of(model) if rule.message_of else rule.message
            yield Problem(_join(path, rule.field), message)
    if old is not None:
        for transition in model.transitions:
            if not transition.holds(old, model):
                yield Problem(_join(path, transition.field), transition.message)
    for name, field in type(model).model_fields.items():
        value, where = getattr(model, name), _join(path, field.alias or name)
        if isinstance(value, Model):
            yield from broken_rules(value, getattr(old, name, None), where)
        elif isinstance(value, tuple):
            for number, item in enumerate(value):
                if isinstance(item, Model):
                    yield from broken_rules(item, None, f"{where}[{number}]")


def _join(path: str, field: str | None) -> str:
    return ".".join(part for part in (path, field) if part)
