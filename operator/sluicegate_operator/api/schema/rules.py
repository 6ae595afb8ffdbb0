"""The base of every model, and rules between fields: once as CEL for the API server, once in Python.

This module has only the machinery. The two forms of a rule are next to each other in its model, and the shared table of
bad manifests tests both. Transition rules compare with the previous version of the object.
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
    """A rule that a model must fulfil. `allows` takes the model.

    If the rule does not allow the model, the API server names `field` (in camelCase). `message_cel` and `message_of`
    return a sentence that names the problem; they are evaluated only then.
    """

    cel: str
    message: str
    allows: Callable[[Any], bool]
    field: str | None = None
    message_cel: str | None = None
    message_of: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """A rule that a change of a model must fulfil. `allows` takes the old and the new model."""

    cel: str
    message: str
    allows: Callable[[Any, Any], bool]
    field: str | None = None


def cluster_ref_stays(otherwise: str) -> TransitionRule:
    """Return the rule that an object stays with its BrokerCluster; `otherwise` tells the user what to do instead."""
    return TransitionRule(
        cel="self.clusterRef.name == oldSelf.clusterRef.name",
        message=f"clusterRef cannot be changed: {otherwise}",
        allows=lambda old, new: old.cluster_ref.name == new.cluster_ref.name,
        field="clusterRef",
    )


def own_name_stays(field: str) -> str:
    """Return the CEL of the rule of a kind that the name in spec stays. Without the field it is metadata.name."""
    new, old = (f"(has({one}.spec.{field}) ? {one}.spec.{field} : {one}.metadata.name)" for one in ("self", "oldSelf"))
    return f"{new} == {old}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a manifest: the field, and a sentence that says what to do."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Model(BaseModel):
    """The base of all models: camelCase in YAML, snake_case in Python, immutable.

    Unknown fields are refused (but see manifests.read_stored), and no value is converted silently.
    """

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
    """Yield a problem for each broken rule of `model` and of the models in it."""
    for rule in model.rules:
        if not rule.allows(model):
            message = rule.message_of(model) if rule.message_of else rule.message
            yield Problem(_join(path, rule.field), message)
    if old is not None:
        for transition in model.transitions:
            if not transition.allows(old, model):
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
