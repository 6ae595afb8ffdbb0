"""`sluicegate recommend`: ConnectionQuotas that an audit log recommends, as manifests with their reasons.

The audit pipeline has computed the limits with its other results, and prints them in a process of its own
(`python -m audit_pipeline recommend`).
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from textwrap import wrap
from typing import Annotated, Any

import typer
import yaml

from sluicegate_operator.api.models.broker_listener import LISTENER_PATTERN
from sluicegate_operator.cli.extras import require

BAD_USE = 2
_COMMENT_CHARACTERS = 110
_NAME_CHARACTERS = 63


class RecommendOutput(StrEnum):
    """Formats: manifests to commit, all figures for programs, and a table."""

    YAML = "yaml"
    JSON = "json"
    TEXT = "text"


def recommend(
    audit: Annotated[
        str, typer.Option("--audit", help="Folder or URI with results of `sluicegate audit build`.", metavar="RESULTS")
    ],
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Name of the BrokerCluster, for clusterRef of the manifests.")
    ] = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", help="ID of the cluster in the results, if there are several.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="Namespace of the manifests; by default none is written.")
    ] = None,
    output: Annotated[RecommendOutput, typer.Option("-o", "--output", help="Output format.")] = RecommendOutput.TEXT,
) -> None:
    """Print the limits on new connections that the last week of an audit log recommends.

    -o yaml prints ConnectionQuotas for a repository. The exit code is 0, 3 if the log is incomplete, and 2 for wrong
    use. Nothing is changed.
    """
    if output is RecommendOutput.YAML and cluster is None:
        print("-o yaml needs --cluster NAME, because the log knows only the cluster's ID", file=sys.stderr)
        raise typer.Exit(BAD_USE)
    require("landing", "sluicegate recommend")
    form = "table" if output is RecommendOutput.TEXT else "json"
    chosen = [] if cluster_id is None else [f"--cluster={cluster_id}"]
    command = [sys.executable, "-m", "audit_pipeline", "recommend", f"--results={audit}", *chosen, "--output", form]
    if output is not RecommendOutput.YAML:
        raise typer.Exit(subprocess.run(command, check=False).returncode)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        raise typer.Exit(done.returncode)
    limits = json.loads(done.stdout)["limits"]
    ids = sorted({limit["cluster_id"] for limit in limits})
    if len(ids) > 1:
        print(f"the results have several clusters: choose one with --cluster-id, of {', '.join(ids)}", file=sys.stderr)
        raise typer.Exit(BAD_USE)
    print("\n".join(manifests(limits, cluster or "", namespace)))
    raise typer.Exit(done.returncode)


def manifests(limits: Sequence[Mapping[str, Any]], cluster: str, namespace: str | None) -> Iterator[str]:
    """Yield the lines of a YAML file: a ConnectionQuota for each limit that holds the storms, with its reasons.

    Single addresses and small ranges get one only if they took part in a storm. Other limits are comments.
    """
    first = limits[0]
    yield from _comment(
        f"Recommended from the connections of {first['from_date']} to {first['to_date']} (UTC). The rates hold for "
        f"connectionQuota.strategy: {first['strategy']} of the BrokerCluster."
    )
    for limit in limits:
        is_of_all = limit["limit_is"] == "PerAddress" or limit["kind"] == "listener"
        if not is_of_all and not limit["storms"]:
            continue
        yield "---"
        yield from _comment(f"{limit['kind']} {limit['target']}: {limit['why']}")
        yield from map("# {}".format, _tried(limit))
        refusal = _refusal(limit)
        if refusal is not None:
            yield from _comment(refusal)
            continue
        if limit["kind"] == "listener":
            yield from _comment(
                "mode Observe does not exist for a listener: this limit is in force as soon as it is applied. To count "
                "before, apply a quota of mode Observe on cidr 0.0.0.0/0 and one on ::/0 with limitIs: Shared."
            )
        yield yaml.safe_dump(_quota(limit, cluster, namespace), sort_keys=False).rstrip()


def _refusal(limit: Mapping[str, Any]) -> str | None:
    """Return why a limit becomes no manifest; None if it does."""
    if not limit["is_holding"]:
        return "No ConnectionQuota is recommended here, because this rate would not hold each storm."
    if limit["kind"] == "listener" and re.fullmatch(LISTENER_PATTERN, limit["target"]) is None:
        return "No ConnectionQuota can name this listener: BrokerListeners have names such as EXTERNAL."
    return None


def _tried(limit: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about the replay of this limit."""
    if limit["tried_connections"] < limit["waiting_connections"]:
        yield (
            f"Of {limit['waiting_connections']:,} connections in the times of possible waits, "
            f"{limit['tried_connections']:,} were replayed."
        )
    names = {
        "usual": "usual connections",
        "storm": "connections of storms",
        "beside": "connections of other clients during storms",
    }
    for part, name in names.items():
        found = limit["parts"].get(part)
        if found is not None:
            longest = f", at most {found['delay_max_us'] / 1e6:.3f} s" if found["delayed"] else ""
            yield (
                f"Replayed: of {found['connections']:,} {name}, {found['accepted']:,} are admitted, "
                f"{found['delayed']:,} of them delayed{longest}; {found['rejected']:,} are rejected."
            )


def _quota(limit: Mapping[str, Any], cluster: str, namespace: str | None) -> dict[str, Any]:
    name = re.sub("[^a-z0-9]+", "-", f"recommended-{limit['kind']}-{limit['target']}".lower()).strip("-")
    spec: dict[str, Any] = {
        "clusterRef": {"name": cluster},
        "target": {limit["kind"]: limit["target"]},
        "maxConnectionCreationRate": limit["rate"],
    }
    if limit["limit_is"] is not None:
        spec["limitIs"] = limit["limit_is"]
    if limit["kind"] != "listener":
        spec["mode"] = "Observe"
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "ConnectionQuota",
        "metadata": {
            "name": name[:_NAME_CHARACTERS].strip("-"),
            **({} if namespace is None else {"namespace": namespace}),
        },
        "spec": spec,
    }


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in wrap(text, _COMMENT_CHARACTERS))
