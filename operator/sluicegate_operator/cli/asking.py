"""A question to a cluster as a command puts it: answered, or one sentence on stderr and an exit code.

2 is for what was asked wrongly, 1 for what the cluster refuses or does not answer.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import typer

from sluicegate_operator.cli.bootstrap import BootstrapError, bootstrap_addresses
from sluicegate_operator.cli.printable import printable
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError

BAD_USE, REFUSED = 2, 1
Answer = TypeVar("Answer")


class RefusedError(Exception):
    """The cluster is not in a state for it; the message says what to do."""


def ask(
    where: tuple[str | None, Path, str | None], client_id: str, question: Callable[[AdminClient], Awaitable[Answer]]
) -> Answer:
    """`where` has what --bootstrap-server, --data-dir and --cluster say. Ends the command where there is no answer."""

    async def asked() -> Answer:
        async with AdminClient(addresses, client_id=client_id) as admin:
            return await question(admin)

    try:
        addresses = bootstrap_addresses(*where)
        return asyncio.run(asked())
    except BootstrapError as error:
        raise bad_use(str(error)) from None
    except (RefusedError, KafkaAdminError) as error:
        say(str(error))
        raise typer.Exit(REFUSED) from None


def say(sentence: str) -> None:
    print(printable(sentence), file=sys.stderr)


def bad_use(message: str) -> typer.Exit:
    say(message)
    return typer.Exit(BAD_USE)


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2))
