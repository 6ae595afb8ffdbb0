"""The names that a release promises to keep: of commands, fields, values, keys, metrics and columns.

tests/unit/history/names.json has those of the last release. `make release-version` writes it.
"""

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main
import yaml

from audit_pipeline.contract import contract
from broker_runtime.config import BROKER_KEYS, TOPIC_KEYS
from sluicegate_operator.cli.main import COMMANDS

PLACE = "tests/unit/history/names.json"
_METRIC = re.compile(r"^\| `(?P<name>\w+)` \| (?P<type>\w+) \|", re.MULTILINE)


def public_names(root: Path) -> dict[str, list[str]]:
    """Return the names of today's code, by what they are names of."""
    crds = [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in sorted((root / "crds").glob("*.yaml"))]
    values = json.loads((root / "charts" / "sluicegate" / "values.schema.json").read_text(encoding="utf-8"))
    found: dict[str, Iterator[str]] = {
        "commands and options": _commands(),
        "fields of resources": (name for crd in crds for name in _fields_of(crd)),
        "values of the chart": _fields(values, values.get("definitions", {}), ""),
        "configuration keys": iter(
            [*(f"broker {name}" for name in BROKER_KEYS), *(f"topic {name}" for name in TOPIC_KEYS)]
        ),
        "metrics": (
            f"{found['name']} {found['type']}"
            for found in _METRIC.finditer((root / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8"))
        ),
        "columns of audit events": (
            f"{name}.{field.name} {field.type}" for name, table in contract().tables.items() for field in table.fields
        ),
    }
    return {kind: sorted(set(names)) for kind, names in found.items()}


def write_names(root: Path) -> None:
    """Write the names of today's code as those of the last release."""
    (root / PLACE).write_text(json.dumps(public_names(root), indent=1) + "\n", encoding="utf-8")


def _commands() -> Iterator[str]:
    for name, command in COMMANDS.items():
        yield name
        if command.module:
            part = getattr(importlib.import_module(f"sluicegate_operator.cli.{command.module}"), name.replace("-", "_"))
            if not isinstance(part, typer.Typer):
                app = typer.Typer()
                app.command(name)(part)
                part = app
            yield from _options(typer.main.get_command(part), name)


def _options(command: Any, path: str) -> Iterator[str]:
    for name, inner in getattr(command, "commands", {}).items():
        yield f"{path} {name}"
        yield from _options(inner, f"{path} {name}")
    for parameter in command.params:
        yield from (
            f"{path} {option}"
            for option in parameter.opts
            if option.startswith("-") and not option.endswith("-completion")
        )


def _fields_of(crd: Mapping[str, Any]) -> Iterator[str]:
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        yield from _fields(schema, {}, f"{crd['spec']['names']['kind']} {version['name']} ")


def _fields(schema: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of all properties of a JSON schema."""
    schema = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from _fields(inner, definitions, f"{path}{name}.")
    if isinstance(schema.get("items"), Mapping):
        yield from _fields(schema["items"], definitions, f"{path}[].")
