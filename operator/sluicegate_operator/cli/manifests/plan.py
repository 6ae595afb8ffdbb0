"""`sluicegate plan`: shows the effects of manifests before they are applied."""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

from sluicegate_operator.api import Manifests, load_manifests
from sluicegate_operator.api.schema.metadata import DEFAULT_NAMESPACE
from sluicegate_operator.cli.manifests.plan_worlds import UnknownWorldError, in_files, in_kubernetes, in_up
from sluicegate_operator.cli.options import DATA_DIR, DataDirOption, FilesOption
from sluicegate_operator.local.refusals import not_for_a_laptop
from sluicegate_operator.planning.layout.preview_nodes import restart_phrases
from sluicegate_operator.preview.cluster import ClusterPreview
from sluicegate_operator.preview.manifests import ObjectOutcome, Preview, World, preview, summary

REFUSED, RESTARTS = 1, 2
_BAD_USE = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""Any error of options; typer exports no name for it."""
_SIGNS = {
    ObjectOutcome.CREATED: "+",
    ObjectOutcome.CHANGED: "~",
    ObjectOutcome.UNCHANGED: "=",
    ObjectOutcome.REFUSED: "!",
    ObjectOutcome.DELETED: "-",
}


class _Parsed(TyperCommand):
    """Exits with REFUSED for wrong options: typer's own code for them is RESTARTS."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _BAD_USE as error:
            error.exit_code = REFUSED
            raise


PARSED_BY = _Parsed


class PlanOutput(StrEnum):
    """The output formats of `plan`, for users and for programs."""

    TEXT = "text"
    JSON = "json"


def plan(
    files: FilesOption,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of objects whose manifest has none.")
    ] = DEFAULT_NAMESPACE,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", help="Compare with these files or folders instead of a Kubernetes cluster."),
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", help="Kubeconfig file of the cluster to compare with; by default KUBECONFIG."),
    ] = None,
    up: Annotated[bool, typer.Option("--up", help="Compare with what `sluicegate up` runs in --data-dir.")] = False,
    data_dir: DataDirOption = DATA_DIR,
    output: Annotated[PlanOutput, typer.Option("-o", "--output", help="Output format.")] = PlanOutput.TEXT,
) -> None:
    """Compare manifests with what is running.

    The exit code is 0 when no node restarts, 2 when one would, and 1 when something is refused or cannot be read. The
    command writes nothing.
    """
    ways = {"--up": up, "--against": bool(against), "--kubeconfig": kubeconfig is not None}
    if len(given := [name for name, is_given in ways.items() if is_given]) > 1:
        raise typer.Exit(_failed([f"{' and '.join(given)} exclude each other: use one of them"], output))
    wanted = load_manifests(files, skip_others=True, namespace=namespace)
    if refusals := [str(error) for error in wanted.errors] or _nothing(wanted, files):
        raise typer.Exit(_failed(refusals, output))
    try:
        if up:
            world = _on_this_machine(wanted, data_dir)
        else:
            world = in_files(against, namespace) if against else in_kubernetes(wanted, kubeconfig)
    except UnknownWorldError as error:
        raise typer.Exit(_failed(error.sentences, output)) from None
    seen = preview(wanted, world, datetime.now(UTC))
    if output is PlanOutput.JSON:
        print(json.dumps(document(seen), indent=2))
    else:
        print("\n".join(lines(seen)))
    raise typer.Exit(exit_code(seen))


def _on_this_machine(wanted: Manifests, data_dir: Path) -> World:
    if refusals := not_for_a_laptop(wanted):
        raise UnknownWorldError(refusals)
    return in_up(data_dir)


def exit_code(seen: Preview) -> int:
    if seen.refused:
        return REFUSED
    return RESTARTS if seen.restarts else 0


def _nothing(manifests: Manifests, files: Sequence[Path]) -> list[str]:
    return [] if manifests.resources else [f"no objects of sluicegate.dev in {', '.join(map(str, files))}"]


def _failed(sentences: Sequence[str], output: PlanOutput) -> int:
    if output is PlanOutput.JSON:
        print(json.dumps({"exitCode": REFUSED, "problems": list(sentences)}, indent=2))
    else:
        for sentence in sentences:
            print(sentence, file=sys.stderr)
    return REFUSED


def lines(seen: Preview) -> Iterator[str]:
    """Yield the preview as lines for users."""
    for item in seen.objects:
        if item.outcome is ObjectOutcome.UNCHANGED:
            continue
        yield f"{_SIGNS[item.outcome]} {item.kind} {item.namespace}/{item.name}: {item.outcome.lower()}"
        yield from (f"    {sentence}" for sentence in (*item.changes, *item.problems))
    for complaint in seen.complaints:
        yield f"! {complaint.kind} {complaint.namespace}/{complaint.name}: {complaint.message}"
    for cluster in seen.clusters:
        yield from _cluster_lines(cluster)
    yield from seen.notes
    yield summary(seen)


def _cluster_lines(cluster: ClusterPreview) -> Iterator[str]:
    if not (cluster.live or cluster.restarts or cluster.notes):
        return
    yield f"BrokerCluster {cluster.namespace}/{cluster.name}"
    yield from (f"    while nodes run: {phrase}" for phrase in cluster.live)
    yield from (f"    {phrase}" for phrase in restart_phrases(cluster.restarts))
    yield from (f"    {note}" for note in cluster.notes)


def document(seen: Preview) -> dict[str, Any]:
    """Return the preview as JSON for programs; `reasons` have the same kinds as in Events."""
    return {
        "exitCode": exit_code(seen),
        "summary": summary(seen),
        "objects": [
            {
                "kind": item.kind,
                "namespace": item.namespace,
                "name": item.name,
                "outcome": item.outcome.value,
                "changes": list(item.changes),
                "problems": list(item.problems),
            }
            for item in seen.objects
        ],
        "complaints": [
            {
                "kind": complaint.kind,
                "namespace": complaint.namespace,
                "name": complaint.name,
                "message": complaint.message,
                "stalls": complaint.stalls,
            }
            for complaint in seen.complaints
        ],
        "clusters": [_cluster_document(cluster) for cluster in seen.clusters],
        "notes": list(seen.notes),
    }


def _cluster_document(cluster: ClusterPreview) -> dict[str, Any]:
    return {
        "namespace": cluster.namespace,
        "name": cluster.name,
        "live": list(cluster.live),
        "restarts": [
            {
                "node": node.name,
                "reasons": [
                    {"kind": reason.kind.value, "detail": reason.detail, "keys": list(reason.keys)}
                    for reason in node.reasons
                ],
            }
            for node in cluster.restarts
        ],
        "notes": list(cluster.notes),
    }
