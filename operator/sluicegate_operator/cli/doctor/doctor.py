"""`sluicegate doctor`: checks an installation, and says what to do.

Exit codes: 1 if there is a problem, 2 for wrong use. A warning does not change the exit code.
"""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sluicegate_operator.cli.asking.asking import bad_use, print_json
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.asking.kubernetes_asked import Place, place_asked
from sluicegate_operator.cli.doctor.checks.catalogue import CHECKS
from sluicegate_operator.cli.doctor.checks.installation import installation_results
from sluicegate_operator.cli.doctor.checks.results import CheckResult, as_document, exit_code, summary
from sluicegate_operator.cli.doctor.reading.kubernetes import kubernetes_results
from sluicegate_operator.cli.doctor.reading.own_installation import own_installation
from sluicegate_operator.cli.doctor.reading.this_machine import machine_results
from sluicegate_operator.cli.doctor.results_table import results_table
from sluicegate_operator.cli.options import (
    DATA_DIR,
    ClusterOption,
    DataDirOption,
    KubeconfigOption,
    KubeContextOption,
    NamespaceOption,
    Output,
)


def doctor(
    namespace: NamespaceOption = None,
    context: KubeContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
) -> None:
    """Check the installation, and say what to do about each problem.

    The checks are those of this machine and of `sluicegate up`, or with -n those of a Kubernetes namespace. The exit
    code is 1 if there is a problem.
    """
    place = place_asked(namespace, context, kubeconfig)
    try:
        results = asyncio.run(_results(place, cluster, data_dir))
    except NobodyToAskError as error:
        raise bad_use(str(error)) from None
    order = {check.name: number for number, check in enumerate(CHECKS)}
    results.sort(key=lambda result: order[result.check.name])
    if output is Output.JSON:
        print_json(as_document(results))
    else:
        Console().print(results_table(results))
        print(summary(results))
    raise typer.Exit(exit_code(results))


async def _results(place: Place | None, cluster: str | None, data_dir: Path) -> list[CheckResult]:
    own = own_installation()
    results = list(installation_results(own, runs_brokers=place is None))
    if place is None:
        return [*results, *await machine_results(data_dir, cluster, own.release)]
    return [*results, *await kubernetes_results(place, cluster, own.release)]
