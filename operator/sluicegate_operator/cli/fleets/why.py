"""`sluicegate why ADDRESS`: which quotas throttle an address, on which broker, since when and why.

Exit codes: 2 for wrong use, 1 if a broker or the API server does not answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.schema.addresses import is_ip
from sluicegate_operator.cli.asking.asking import REFUSED, bad_use, print_json, say
from sluicegate_operator.cli.asking.brokers_asked import (
    BrokerAsked,
    NobodyToAskError,
    ask_brokers,
    brokers_here,
    brokers_in_kubernetes,
)
from sluicegate_operator.cli.asking.kubernetes_asked import Place, check_name, place_asked
from sluicegate_operator.cli.asking.quotas_named import behind, quotas_here, quotas_in_kubernetes
from sluicegate_operator.cli.asking.why_report import AddressAnswers, document, silent_words, why_tables
from sluicegate_operator.cli.options import (
    DATA_DIR,
    ClusterOption,
    DataDirOption,
    KubeconfigOption,
    KubeContextOption,
    NamespaceOption,
    Output,
)
from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.fleet.pods.workload_pods import workload_pod
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import POD

PATH = "/connection-quotas"
OF_A_POD = "pod/"
FORBIDDEN = 403

Where = tuple[Sequence[str], list[BrokerAsked]]
"""The addresses in question, and the brokers to ask about them."""


def why(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="An IPv4 or IPv6 address, or pod/NAME.")],
    namespace: NamespaceOption = None,
    context: KubeContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
) -> None:
    """Show the limits that apply to an address.

    Without -n, --context and --kubeconfig the command asks the brokers of `sluicegate up`. It lists the limits of the
    address first, and then those of brokers and listeners, which all clients share.
    """
    if not address.startswith(OF_A_POD) and not is_ip(address):
        raise bad_use(f"{address} is neither an IPv4 or IPv6 address, such as 10.0.0.1, nor pod/NAME")
    if address.startswith(OF_A_POD):
        check_name(address.removeprefix(OF_A_POD))
    place = place_asked(namespace, context, kubeconfig)
    if place is None and address.startswith(OF_A_POD):
        raise bad_use("a pod needs a namespace of Kubernetes: set it with -n NAMESPACE")
    found = asyncio.run(_ask(address, place, cluster, data_dir))
    if output is Output.JSON:
        print_json(document(found))
    else:
        for one in found:
            for table in why_tables(one, datetime.now(UTC)):
                Console().print(table)
    silent = silent_words(found)
    for sentence in silent:
        say(sentence)
    if silent:
        raise typer.Exit(REFUSED)


async def _ask(address: str, place: Place | None, cluster: str | None, data_dir: Path) -> list[AddressAnswers]:
    try:
        if place is None:
            return await ask_here(str(ip_address(address)), cluster, data_dir)
        with place.client() as kube:
            addresses = await _addresses(kube, place.namespace, address)
            return await ask_in_kubernetes(kube, addresses, place.namespace, cluster)
    except DataDirError as error:
        raise bad_use(f"{error}; or ask a cluster in Kubernetes with -n NAMESPACE") from None
    except NobodyToAskError as error:
        raise bad_use(str(error)) from None
    except KubeError as error:
        say(str(error))
        raise typer.Exit(REFUSED) from None


async def ask_here(address: str, cluster: str | None, data_dir: Path) -> list[AddressAnswers]:
    """Ask the brokers of `sluicegate up` about an address. Raises DataDirError and NobodyToAskError."""
    return await _asked([address], brokers_here(data_dir, cluster), quotas_here(data_dir))


async def ask_in_kubernetes(
    kube: KubeClient,
    addresses: Sequence[str],
    namespace: str,
    cluster: str | None,
    *,
    warn: Callable[[str], None] = say,
) -> list[AddressAnswers]:
    """Ask the brokers of a namespace about addresses. Raises KubeError and NobodyToAskError.

    `warn` gets a sentence if the names of quotas are missing from the answers.
    """
    brokers = await brokers_in_kubernetes(kube, namespace, cluster)
    return await _asked(addresses, brokers, await _quotas(kube, namespace, warn))


async def _quotas(kube: KubeClient, namespace: str, warn: Callable[[str], None]) -> Sequence[ConnectionQuota]:
    """Return the quotas of the namespace; none, with a sentence for `warn`, if listing is forbidden.

    Raises KubeError.
    """
    try:
        return await quotas_in_kubernetes(kube, namespace)
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        warn(f"limits of brokers, listeners and addresses are shown without the names of their quotas: {error}")
        return ()


async def _asked(
    addresses: Sequence[str], brokers: list[BrokerAsked], quotas: Sequence[ConnectionQuota]
) -> list[AddressAnswers]:
    return [
        AddressAnswers(one, tuple(await ask_brokers(brokers, PATH, {"address": one})), behind(quotas, one))
        for one in addresses
    ]


async def _addresses(kube: KubeClient, namespace: str, address: str) -> Sequence[str]:
    """Return the given address, or those of the named pod. Raises KubeError and NobodyToAskError."""
    if not address.startswith(OF_A_POD):
        return [str(ip_address(address))]
    name = address.removeprefix(OF_A_POD)
    body = await kube.get(POD, namespace, name)
    if body is None:
        raise NobodyToAskError(f"pod {name} does not exist in namespace {namespace}")
    pod = workload_pod(body)
    if pod is None or not pod.addresses:
        raise NobodyToAskError(f"pod {name} has no address: it has not started or has ended")
    if pod.host_network:
        say(f"pod {name} has its node's address (hostNetwork), and workload quotas do not include such pods")
    return pod.addresses
