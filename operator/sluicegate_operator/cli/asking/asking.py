"""Sends a command's request to a cluster; if there is no answer, prints one sentence to stderr and exits.

Exit code 2 is for wrong use, 1 if the cluster refuses or does not answer.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import typer

from kafka_bytes.printable import printable
from sluicegate_operator.cli.asking.bootstrap import BootstrapError, bootstrap_addresses, security_here
from sluicegate_operator.cli.asking.command_config import CommandConfigError, read_command_config
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError

BAD_USE, REFUSED = 2, 1
Answer = TypeVar("Answer")


class RefusedError(Exception):
    """Error for a request that the state of the cluster does not allow. The message says what to do."""


def ask(
    where: tuple[str | None, Path, str | None, Path | None],
    client_id: str,
    question: Callable[[AdminClient], Awaitable[Answer]],
) -> Answer:
    """Return the answer to `question`, or exit with an error.

    `where` has --bootstrap-server, --data-dir, --cluster and --command-config.
    """

    async def asked() -> Answer:
        async with AdminClient(addresses, client_id=client_id, security=security) as admin:
            return await question(admin)

    try:
        addresses = bootstrap_addresses(*where[:3])
        security = read_command_config(where[3]) if where[3] or where[0] else security_here(where[1], where[2])
        return asyncio.run(asked())
    except (BootstrapError, CommandConfigError) as error:
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
