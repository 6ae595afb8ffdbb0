"""`sluicegate damage`: lists offsets that brokers cannot read, and accepts their loss if no replica has them.

Exit codes: 2 for wrong use, 1 if the cluster refuses or does not answer.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_bytes.printable import printable
from sluicegate_operator.cli.asking.asking import REFUSED, RefusedError, ask, bad_use, print_json, say
from sluicegate_operator.cli.asking.bootstrap import BootstrapOption
from sluicegate_operator.cli.asking.command_config import CommandConfigOption
from sluicegate_operator.cli.options import DATA_DIR, ClusterOption, DataDirOption, Output
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.views import BrokerView, DamagedReplica, LogDamage, PartitionView

CLIENT_ID = "sluicegate-damage"
_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<index>\d+)")
_OFFSETS = re.compile(r"(?P<first>\d+)(-(?P<last>\d+))?")

OutputOption = Annotated[Output, typer.Option("-o", "--output")]

damage = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DamageAnswers:
    """The reports of damage: each broker's answer, and a reason for each broker that did not answer."""

    told: tuple[LogDamage, ...]
    silent: tuple[str, ...]


@damage.command("list")
def list_(
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the offsets that brokers cannot read, why, and the state of their repair."""
    found = ask((bootstrap_server, data_dir, cluster, command_config), CLIENT_ID, _found)
    if output is Output.JSON:
        print_json({"brokers": [asdict(one) for one in found.told]})
    elif any(one.replicas for one in found.told):
        Console().print(damage_table(found.told))
        hints(found.told)
    elif found.told:
        say(f"{len(found.told)} brokers can read all of their logs")
    for sentence in found.silent:
        say(sentence)
    if found.silent:
        raise typer.Exit(REFUSED)


@damage.command()
def accept(
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="For example orders-0.")],
    offsets: Annotated[str, typer.Option("--offsets", help="FIRST-LAST, as shown by `sluicegate damage list`.")],
    execute: Annotated[
        bool, typer.Option("--execute", help="Accept the loss; without this option the command only shows it.")
    ] = False,
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Accept the loss of offsets that no replica has. Consumers skip them from then on; this cannot be undone."""
    named, span = _PARTITION.fullmatch(partition), _OFFSETS.fullmatch(offsets)
    if named is None:
        raise bad_use(f"{partition} is not a partition: write TOPIC-PARTITION, for example orders-0")
    if span is None or int(span["last"] or span["first"]) < int(span["first"]):
        raise bad_use(
            f"--offsets {offsets}: write FIRST-LAST, for example 15-19, as `sluicegate damage list` shows them"
        )
    topic, index = named["topic"], int(named["index"])
    first, last = int(span["first"]), int(span["last"] or span["first"])

    async def accepted(asked: AdminClient) -> list[str]:
        return await _accept(asked, topic, index, (first, last), execute=execute)

    for sentence in ask((bootstrap_server, data_dir, cluster, command_config), CLIENT_ID, accepted):
        say(sentence)


async def _found(asked: AdminClient) -> DamageAnswers:
    told, silent = [], []
    for broker in (await asked.describe_cluster_with_fenced()).brokers:
        if broker.fenced:
            silent.append(
                f"broker {broker.id} is fenced: whether it can read its logs is not known until it is started"
            )
            continue
        try:
            told.append(await asked.broker(broker.host, broker.port).describe_log_damage())
        except KafkaAdminError as error:
            silent.append(f"broker {broker.id} did not report its damaged offsets: {error}")
    return DamageAnswers(tuple(told), tuple(silent))


async def _accept(asked: AdminClient, topic: str, index: int, span: tuple[int, int], *, execute: bool) -> list[str]:
    """Accept the loss, or show it without `execute`. Returns sentences for the user.

    Raises RefusedError and KafkaAdminError.
    """
    brokers = {broker.id: broker for broker in (await asked.describe_cluster()).brokers}
    view = (await asked.describe_topics([topic])).get(topic)
    part = next((one for one in view.partitions if one.index == index), None) if view is not None else None
    if part is None:
        raise RefusedError(f"partition {index} of topic {topic} does not exist")
    if part.leader is None or part.leader not in brokers:
        raise RefusedError(f"{topic}-{index} has no leader, and only the leader can accept the loss")
    leader = asked.broker(brokers[part.leader].host, brokers[part.leader].port)
    known = (await leader.describe_log_damage()).replicas
    replica = next((one for one in known if (one.topic, one.partition) == (topic, index)), None)
    lost = _lost(replica, f"{topic}-{index}", span)
    if not execute:
        hint = "nothing was changed; --execute accepts the loss of these offsets, which cannot be undone"
        return [*lost, *_others(part, brokers, replica), hint]
    await leader.accept_log_loss(topic, index, *span)
    return [*lost, f"the loss is accepted: consumers of {topic}-{index} skip these offsets from now on"]


def _lost(replica: DamagedReplica | None, place: str, span: tuple[int, int]) -> list[str]:
    """Return a sentence for each range. Raises RefusedError if these are not the damaged offsets."""
    ranges = () if replica is None else replica.ranges
    chosen = [one for one in ranges if span[0] <= one.first and one.last <= span[1]]
    if not chosen or (chosen[0].first, chosen[-1].last) != span:
        known = ", ".join(f"{one.first}-{one.last}" for one in ranges) or "none"
        raise RefusedError(
            f"offsets {span[0]}-{span[1]} of {place} are not the damaged offsets of its leader, which are {known}"
        )
    return [
        f"offsets {one.first} to {one.last} of {place} ({one.last - one.first + 1} in all) are lost: {one.reason}"
        for one in chosen
    ]


def _others(part: PartitionView, brokers: dict[int, BrokerView], replica: DamagedReplica | None) -> list[str]:
    """Return sentences about replicas that may still have the records, and about the state of the repair."""
    away = [str(one) for one in part.replicas if one not in brokers]
    sentences = [f"the replicas on brokers {', '.join(away)}, which are offline, may still have them"] if away else []
    return sentences if replica is None else [*sentences, f"repair: {replica.repair}"]


def damage_table(told: Sequence[LogDamage]) -> Table:
    table = Table(title="Offsets that cannot be read")
    for heading in ("partition", "broker", "offsets", "why", "repair"):
        table.add_column(heading, overflow="fold")
    for one in told:
        for replica in one.replicas:
            place = printable(f"{replica.topic}-{replica.partition}")
            role = "leads" if replica.leader == one.broker_id else "follows"
            if not replica.ranges:
                table.add_row(Text(place), f"{one.broker_id} ({role})", "all", Text(printable(replica.repair)), "")
            for each in replica.ranges:
                table.add_row(
                    Text(place),
                    f"{one.broker_id} ({role})",
                    f"{each.first}-{each.last}",
                    Text(printable(each.reason)),
                    Text(printable(replica.repair)),
                )
    return table


def hints(told: Sequence[LogDamage]) -> None:
    """Print the command that accepts the loss of each leader's ranges, and the number of ranges not shown."""
    for one in told:
        for replica in one.replicas:
            if replica.leader == one.broker_id and replica.ranges:
                place = printable(f"{replica.topic}-{replica.partition}")
                offsets = f"{replica.ranges[0].first}-{replica.ranges[-1].last}"
                say(f"if no replica has these offsets: sluicegate damage accept {place} --offsets {offsets}")
        shown = sum(len(replica.ranges) for replica in one.replicas)
        if shown < one.ranges_total:
            say(f"broker {one.broker_id} has {one.ranges_total - shown} more ranges")
