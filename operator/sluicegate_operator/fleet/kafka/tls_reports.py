"""Ask nodes which certificates are in force, by their HTTP listener: /tls. A silent node is a value."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluicegate_operator.fleet.kafka.http_get import Address, http_get
from sluicegate_operator.planning.certificates.renewal import NodeInForce

PATH = "/tls"
ASK_TIMEOUT_S = 2.0
ASKED_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class NodePlaced:
    """A node and its HTTP address.

    `http` is None if the node has no address yet. `leaving`: the node ends, so it need not answer.
    """

    name: str
    http: Address | None
    leaving: bool = False


async def ask_in_force(nodes: Iterable[NodePlaced]) -> Sequence[NodeInForce]:
    """Return the nodes' reports about their certificates. Nodes that leave and do not answer are left out."""
    slots = asyncio.Semaphore(ASKED_AT_A_TIME)

    async def ask(node: NodePlaced) -> NodeInForce | None:
        async with slots:
            found = await _ask(node)
        return None if node.leaving and found.silence else found

    return [found for found in await asyncio.gather(*map(ask, nodes)) if found is not None]


async def _ask(node: NodePlaced) -> NodeInForce:
    if node.http is None:
        return NodeInForce(node.name, silence="it has no address yet")
    try:
        answer = await http_get(node.http, PATH, timeout_s=ASK_TIMEOUT_S)
    except TimeoutError:
        return NodeInForce(node.name, silence=f"no answer within {ASK_TIMEOUT_S:g} s")
    except OSError as error:
        return NodeInForce(node.name, silence=str(error))
    if answer.status != 200:
        return NodeInForce(node.name, silence=f"it answers {answer.status} to {PATH}")
    return parsed_report(node.name, answer.body)


def parsed_report(name: str, body: str) -> NodeInForce:
    """Return a node's report about its certificates, from its answer.

    Listeners of clients have others, which do not count.
    """
    try:
        told = [one for one in json.loads(body)["listeners"] if one["listener"] in ("INTERNAL", "CONTROLLER")]
        in_force = frozenset((str(one["certificate"]), frozenset(map(str, one["authorities"]))) for one in told)
        problem = next((str(one["problem"]) for one in told if one["problem"]), "")
    except (ValueError, KeyError, TypeError):
        return NodeInForce(name, silence=f"its answer to {PATH} cannot be read")
    return NodeInForce(name, in_force, "" if in_force else "it has not opened a listener yet", problem)
