"""`sluicegate what-if`: tries ConnectionQuotas on the connections of an audit log, before they are applied.

The audit pipeline replays the log in a process of its own (`python -m audit_pipeline what-if`): the packages share only
the limiter. This command translates the quotas to the limits that brokers get.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from sluicegate_operator.api import load_manifests
from sluicegate_operator.api.manifests import Manifests
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.cli.extras import require
from sluicegate_operator.cli.options import ClusterOption, OptionalFilesOption, Output
from sluicegate_operator.planning.limits.connection_groups import canonical_member
from sluicegate_operator.quotas.limits_to_try import QuotasToTry, limits_to_try

REFUSED, BAD_USE = 1, 2


class CannotTryError(Exception):
    """The given quotas cannot be tried with `what-if`. The message says what to do."""


def what_if(
    audit: Annotated[
        str | None,
        typer.Option("--audit", help="Folder or URI with the segments of brokers' audit logs.", metavar="SEGMENTS"),
    ] = None,
    files: OptionalFilesOption = None,
    in_force: Annotated[
        bool,
        typer.Option(
            "--in-force",
            help="Replay the log under the limits that it records, and compare each decision with that of the log.",
        ),
    ] = False,
    from_time: Annotated[
        str | None, typer.Option("--from", help="UTC day or time, such as 2026-11-22T15:30; by default all.")
    ] = None,
    to_time: Annotated[
        str | None, typer.Option("--to", help="UTC day, which is included, or time, which is excluded.")
    ] = None,
    cluster: ClusterOption = None,
    member: Annotated[
        list[str] | None,
        typer.Option("--member", help="QUOTA=ADDRESS: an address or range that a quota on a workload selects."),
    ] = None,
    enforce: Annotated[
        bool, typer.Option("--enforce", help="Try quotas of mode Observe as if they enforced their limits.")
    ] = False,
    print_limits: Annotated[
        bool,
        typer.Option(
            "--print-limits", help="Print the limits as JSON for `sluicegate audit build --what-if`, and try nothing."
        ),
    ] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.TABLE,
) -> None:
    """Show by quota and client which connections would have been accepted, delayed and rejected.

    Replays the connections of the log with the brokers' own code, and shows beside it what really happened. The exit
    code is 0, 3 if the log is incomplete, 4 if a decision under the limits in force is not that of the log, 1 if a
    manifest is invalid, and 2 for wrong use. Nothing is changed.
    """
    times = [*(["--from", from_time] if from_time else []), *(["--to", to_time] if to_time else [])]
    if in_force == bool(files):
        print("give either the quotas to try with -f, or --in-force", file=sys.stderr)
        raise typer.Exit(BAD_USE)
    if (audit is None) != print_limits or (in_force and print_limits):
        print("give --audit the folder or URI with the segments of the audit log, or --print-limits", file=sys.stderr)
        raise typer.Exit(BAD_USE)
    if not print_limits:
        require("landing", "sluicegate what-if")
    command = [sys.executable, "-m", "audit_pipeline", "what-if", "--audit", str(audit), *times]
    command += ["--output", output.value]
    if in_force:
        raise typer.Exit(subprocess.run([*command, "--in-force"], check=False).returncode)
    manifests = load_manifests(files or [], skip_others=True)
    if manifests.errors:
        for problem in manifests.errors:
            print(problem, file=sys.stderr)
        raise typer.Exit(REFUSED)
    try:
        given = quotas_to_try(manifests, cluster, member or (), enforce=enforce)
    except CannotTryError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(BAD_USE) from None
    document = json.dumps(limits_to_try(given, datetime.now(UTC)))
    if print_limits:
        print(document)
        return
    done = subprocess.run([*command, "--limits", "-"], input=document, text=True, check=False)
    raise typer.Exit(done.returncode)


def quotas_to_try(
    manifests: Manifests, cluster: str | None, members: Sequence[str], *, enforce: bool = False
) -> QuotasToTry:
    """Return the quotas of one cluster to try. Raises CannotTryError."""
    quotas = manifests.of_kind(ConnectionQuota)
    places = sorted({(quota.namespace, quota.spec.cluster_ref.name) for quota in quotas})
    wanted = [place for place in places if cluster is None or place[1] == cluster]
    if not wanted:
        of = "" if cluster is None else f" of cluster {cluster}"
        raise CannotTryError(f"the files have no ConnectionQuota{of}: give the quotas to try with -f")
    if len(wanted) > 1:
        names = ", ".join(name for _, name in wanted)
        raise CannotTryError(f"the files have ConnectionQuotas of several clusters ({names}): name one with --cluster")
    place = wanted[0]
    chosen = [quota for quota in quotas if (quota.namespace, quota.spec.cluster_ref.name) == place]
    found = next((one for one in manifests.of_kind(BrokerCluster) if (one.namespace, one.name) == place), None)
    return QuotasToTry(
        chosen,
        found,
        manifests.of_kind(BrokerListener),
        _members(members, [quota.name for quota in chosen if quota.spec.target.workload is not None]),
        enforce,
    )


def _members(given: Sequence[str], workloads: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in given:
        quota, _, address = text.partition("=")
        if quota not in workloads:
            raise CannotTryError(f"--member {text}: no ConnectionQuota named {quota!r} has target.workload")
        try:
            found.setdefault(quota, []).append(canonical_member(address))
        except ValueError:
            raise CannotTryError(
                f"--member {text}: {address!r} is not an address or a range, such as 10.0.0.7 or 10.1.0.0/16"
            ) from None
    return found
