"""Parses YAML into models, and finds the problems for which the API server would refuse them, without an API server.

This module reads files and uses no cluster. It checks the same constraints as the CRDs: types and bounds through
pydantic, rules between fields through `rules`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.replica_numbers import cluster_contradictions, topic_contradictions
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.metadata import API_VERSION, DEFAULT_NAMESPACE, GROUP, Resource
from sluicegate_operator.api.schema.rules import Problem, broken_rules
from sluicegate_operator.api.yaml_documents import documents_of

SUFFIXES = (".yaml", ".yml", ".json")
Found = TypeVar("Found", bound=Resource)

_EMPTY = "is empty; write its manifests into it again, or remove the file to delete its objects"

FILE_BYTES_MAX = 4 << 20
"""Limit of a file in bytes. The API server accepts 1.5 MB in one object; a file may have several."""


@dataclass(frozen=True, slots=True)
class ManifestError(Exception):
    """One problem of a file. `document` counts from 0 in the file; None means the whole file."""

    file: str
    document: int | None
    field: str
    sentence: str

    def __str__(self) -> str:
        where = self.file if self.document is None else f"{self.file}, document {self.document + 1}"
        return f"{where}: {self.field}: {self.sentence}" if self.field else f"{where}: {self.sentence}"


class InvalidManifest(ValueError):  # noqa: N818 - it is what the manifest is
    """Error for a manifest with problems, which are in `problems`."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Manifests:
    """The resources and errors that were found in files."""

    resources: tuple[Resource, ...] = ()
    errors: tuple[ManifestError, ...] = field(default=())

    @classmethod
    def of(cls, resources: Sequence[Resource], errors: Sequence[ManifestError] = ()) -> "Manifests":
        return cls(tuple(resources), tuple(errors))

    def of_kind(self, model: type[Found]) -> tuple[Found, ...]:
        return tuple(resource for resource in self.resources if isinstance(resource, model))

    @property
    def clusters(self) -> tuple[BrokerCluster, ...]:
        return self.of_kind(BrokerCluster)


def parse_resource(mapping: Mapping[str, Any], old: Resource | None = None) -> Resource:
    """Parse a user's manifest of a custom resource.

    Raises InvalidManifest with every problem, including unknown fields, which may be typing mistakes. With `old`, the
    transition rules are checked too.
    """
    return _parse(mapping, old)


def read_stored(mapping: Mapping[str, Any]) -> Resource:
    """Parse an object from the API server. Unknown fields belong to another version of the CRD, and are ignored.

    Raises InvalidManifest with every problem.
    """
    return _parse(mapping, None, unknown="ignore")


def _parse(mapping: Mapping[str, Any], old: Resource | None, unknown: Literal["ignore"] | None = None) -> Resource:
    """Parse a manifest. `unknown` decides about unknown fields; None leaves it to each model."""
    kind = mapping.get("kind")
    if mapping.get("apiVersion") != API_VERSION:
        raise InvalidManifest([Problem("apiVersion", f"must be {API_VERSION}")])
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise InvalidManifest([Problem("kind", f"must be one of {', '.join(KINDS)}, not {kind!r}")])
    try:
        resource = known.model.model_validate_json(json.dumps(_without_nulls(mapping), default=str), extra=unknown)
    except ValidationError as error:
        raise InvalidManifest([_problem(detail) for detail in error.errors()]) from None
    broken = list(broken_rules(resource, old))
    if broken:
        raise InvalidManifest(broken)
    return resource


def validate(mapping: Mapping[str, Any], old: Resource | None = None) -> list[str]:
    """Return a sentence for each problem for which the API server would refuse the manifest."""
    try:
        parse_resource(mapping, old)
    except InvalidManifest as error:
        return [str(problem) for problem in error.problems]
    return []


def load_manifests(
    paths: Sequence[Path], *, skip_others: bool = False, namespace: str = DEFAULT_NAMESPACE
) -> Manifests:
    """Load files, and the files directly inside folders, in order of name. Problems are collected, never raised.

    `skip_others`: objects of other API groups are ignored instead of reported. `namespace`: the namespace of objects
    that name none.
    """
    resources: list[Resource] = []
    errors: list[ManifestError] = []
    seen: dict[tuple[str, str, str], tuple[str, int]] = {}
    for file, index, document in _documents(paths, errors):
        if skip_others and not _is_of_our_group(document):
            continue
        try:
            resource = _placed(parse_resource(document), namespace)
        except InvalidManifest as error:
            errors += [ManifestError(file, index, p.field, p.message) for p in error.problems]
            continue
        if not KINDS[resource.kind].by_users:
            sentence = "is written only by the operator; remove it from the file"
            errors.append(ManifestError(file, index, "kind", sentence))
            continue
        identity = resource.identity
        if identity in seen:
            name = resource.name if resource.namespace == DEFAULT_NAMESPACE else f"{resource.namespace}/{resource.name}"
            sentence = (
                f"{resource.kind} {name} is already defined in {seen[identity][0]}; give each object its own name"
            )
            errors.append(ManifestError(file, index, "metadata.name", sentence))
            continue
        seen[identity] = file, index
        resources.append(resource)
    for resource, problem in _contradictions(resources):
        errors.append(ManifestError(*seen[resource.identity], problem.field, problem.message))
    return Manifests.of(resources, errors)


def _contradictions(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Problem]]:
    """Yield problems that the API server does not detect: numbers of replicas that contradict each other."""
    clusters = {(one.namespace, one.name): one for one in resources if isinstance(one, BrokerCluster)}
    for one in resources:
        if isinstance(one, BrokerCluster):
            for problem in cluster_contradictions(one):
                yield one, problem
        elif isinstance(one, Topic):
            for problem in topic_contradictions(one, clusters.get((one.namespace, one.cluster_name))):
                yield one, problem


def _placed(resource: Found, namespace: str) -> Found:
    if "namespace" in resource.metadata.model_fields_set:
        return resource
    metadata = resource.metadata.model_copy(update={"namespace": namespace})
    return resource.model_copy(update={"metadata": metadata})


def _documents(paths: Sequence[Path], errors: list[ManifestError]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    for file in _files(paths, errors):
        try:
            if file.stat().st_size > FILE_BYTES_MAX:
                errors.append(ManifestError(str(file), None, "", f"is larger than {FILE_BYTES_MAX} bytes; split it"))
                continue
            text = file.read_text(encoding="utf-8")
            if not text.strip():
                # Another program has emptied the file to write it again, or an error has: its objects must not go.
                errors.append(ManifestError(str(file), None, "", _EMPTY))
                continue
            documents = list(documents_of(text))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            errors.append(ManifestError(str(file), None, "", f"cannot be read: {_sentence(error)}"))
            continue
        for index, document in enumerate(documents):
            if document is None:
                continue
            is_list = isinstance(document, dict) and document.get("kind") == "List"
            items = document.get("items") if is_list else [document]
            if not isinstance(items, list | None):
                errors.append(ManifestError(str(file), index, "items", "must be a list of manifests"))
                continue
            for item in items or ():
                if isinstance(item, dict):
                    yield str(file), index, item
                else:
                    sentence = "must be a mapping with apiVersion and kind"
                    errors.append(ManifestError(str(file), index, "items" if is_list else "", sentence))


def _sentence(error: Exception) -> str:
    """Return the error with its place in the file, without the name and line of text that PyYAML would add."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark, what = error.problem_mark, " ".join(filter(None, (error.context, error.problem)))
        return f"{what} (line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())


def _is_of_our_group(document: Mapping[str, Any]) -> bool:
    return str(document.get("apiVersion")).partition("/")[0] == GROUP


def _files(paths: Sequence[Path], errors: list[ManifestError]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            try:
                yield from sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES and entry.is_file())
            except OSError as error:
                errors.append(ManifestError(str(path), None, "", f"cannot be read: {error.strerror}"))
        elif path.exists():
            yield path
        else:
            errors.append(ManifestError(str(path), None, "", "does not exist; name an existing file or folder"))


def _without_nulls(value: Any) -> Any:
    """Return the value without nulls, which the API server drops before it validates."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


_SENTENCES: Mapping[str, str] = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not a field of this kind; remove it or check its spelling",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
}

_SCALARS: Mapping[str, tuple[str, str]] = {
    "int_type": ("a whole number", " without quotes"),
    "float_type": ("a number", " without quotes"),
    "string_type": ("a string", "; put quotes around it"),
    "bool_type": ("true or false", " without quotes"),
}
"""The type that a field must have, and what to do if it has another scalar."""


def _problem(detail: ErrorDetails) -> Problem:
    path = ".".join(str(part) for part in detail["loc"])
    if detail["type"] in _SCALARS:
        return Problem(path, _of_scalar(detail["type"], detail["input"]))
    template = _SENTENCES.get(detail["type"])
    return Problem(path, template.format(**detail.get("ctx", {})) if template else detail["msg"])


def _of_scalar(type_: str, given: object) -> str:
    """Return the sentence about a field that must be a string, a number or a boolean, and is not."""
    wanted, advice = _SCALARS[type_]
    if isinstance(given, Mapping):
        return f"must be {wanted}, not a mapping; remove the fields below it"
    if isinstance(given, list):
        return f"must be {wanted}, not a list; write one value"
    helps = isinstance(given, str) or type_ == "string_type"
    return f"must be {wanted}{advice if helps else ''}"
