"""The clusters that a command shows: those of `sluicegate up`, or those of a Kubernetes namespace.

If there is no answer, the command ends with one sentence: exit code 2 for wrong use, 1 if nothing answers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import typer

from sluicegate_operator.cli.asking.asking import REFUSED, bad_use, say
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.asking.kubernetes_asked import Place
from sluicegate_operator.cli.asking.limits_asked import AskLimits, ask_limits
from sluicegate_operator.cli.fleets.fleet_view import FleetView, ShownCluster
from sluicegate_operator.cli.fleets.kubernetes_view import KubernetesView
from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.kube.http.errors import KubeError

Look = Callable[[], Awaitable[Sequence[ShownCluster]]]


async def ask_once(place: Place | None, cluster: str | None, data_dir: Path) -> list[ShownCluster]:
    async with looking(place, cluster, data_dir) as look:
        return list(await look())


@asynccontextmanager
async def looking(place: Place | None, cluster: str | None, data_dir: Path) -> AsyncIterator[Look]:
    """Yield a function that reads the clusters. `cluster` selects one of them; None selects all."""
    try:
        if place is None:
            yield look_here(data_dir, cluster)
        else:
            with place.client() as kube:
                yield KubernetesView(kube, place.namespace, cluster).read_clusters
    except DataDirError as error:
        say(f"{error}; or ask a cluster in Kubernetes with -n NAMESPACE")
        raise typer.Exit(REFUSED) from None
    except NobodyToAskError as error:
        raise bad_use(str(error)) from None
    except KubeError as error:
        say(str(error))
        raise typer.Exit(REFUSED) from None


def look_here(data_dir: Path, cluster: str | None, ask: AskLimits = ask_limits) -> Look:
    """Return a function that reads the clusters of `sluicegate up`. It raises DataDirError and NobodyToAskError."""
    view = FleetView(data_dir, ask)

    async def read_here() -> Sequence[ShownCluster]:
        return _only(await view.read_clusters(), cluster)

    return read_here


def _only(clusters: Sequence[ShownCluster], cluster: str | None) -> Sequence[ShownCluster]:
    if cluster is None:
        return clusters
    found = [one for one in clusters if one.name == cluster]
    if not found:
        raise NobodyToAskError(f"--cluster {cluster}: `up` runs {', '.join(one.name for one in clusters)}")
    return found
