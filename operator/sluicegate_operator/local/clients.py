"""Settings of clients for the secured listeners of `sluicegate up`: files for each user, and lines of the terminal.

DIR/CLUSTER/clients/LISTENER/USER/ has client.properties, librdkafka.properties and settings.py, for their owner alone.
Without users, as for a listener with TLS alone, they are in DIR/CLUSTER/clients/LISTENER/.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sluicegate_operator.api import BrokerListener, KafkaUser
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.local.local import LocalFleet
from sluicegate_operator.fleet.local.local_data import DataDir
from sluicegate_operator.kube.certificates.tls_pair import AUTHORITIES
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER, KAFKA_USER
from sluicegate_operator.local.context import LocalContext
from sluicegate_operator.local.secrets import LocalSecrets, write_private
from sluicegate_operator.planning.users.client_settings import SecureClient, python_settings, settings_files
from sluicegate_operator.resources.secrets.user_secret import JAAS, PASSWORD

_INDENT = "    "


class LocalClients:
    """Writes files with client settings when listeners or users change.

    For each listener, the settings of one client are printed as well.
    """

    def __init__(
        self,
        data: DataDir,
        context: LocalContext,
        secrets: LocalSecrets,
        say: Callable[[str], None],
    ) -> None:
        self._data = data
        self._context = context
        self._fleet: LocalFleet = context.fleet
        self._secrets = secrets
        self._say = say
        self._printed: set[tuple[ClusterKey, str]] = set()

    async def write(self, key: ClusterKey) -> None:
        """Write the client settings for the secured listeners of a cluster. Raises DataDirError.

        Listeners for client certificates and tokens have none, because `up` makes neither.
        """
        snapshot = await self._context.gather(key, [BROKER_LISTENER, KAFKA_USER])
        if snapshot.cluster is None or key not in self._context.running or snapshot.cluster.spec.is_external:
            return
        root = self._data.path / key[1] / "clients"
        written: set[Path] = set()
        for listener in snapshot.listeners:
            bootstrap = self._bootstrap(key[1], listener.spec.name)
            if not bootstrap or not _is_complete(listener):
                continue
            first = ""
            for place, client in self._clients(root / listener.spec.name, listener, bootstrap, snapshot.users):
                for name, text in settings_files(client).items():
                    write_private(place / name, text)
                written.add(place)
                first = first or python_settings(client)
            ready = listener.status.condition("Ready")
            # While brokers restart for a new listener, the addresses of some are missing.
            if ready is not None and ready.status == "True":
                self._print((key, listener.spec.name), root / listener.spec.name, first)
        _remove_others(root, written)

    def _bootstrap(self, cluster: str, listener: str) -> str:
        nodes = self._fleet.describe(cluster)
        return ",".join(node["listeners"][listener] for node in nodes if listener in node["listeners"])

    def _clients(
        self, folder: Path, listener: BrokerListener, bootstrap: str, users: Sequence[KafkaUser]
    ) -> Iterator[tuple[Path, SecureClient]]:
        """Return the clients of a listener with the folder of each."""
        spec, authorities = listener.spec, ""
        if spec.tls is not None:
            path = self._secrets.path(listener.namespace, spec.tls.secret_name) / AUTHORITIES
            authorities = str(path) if path.exists() else ""
        if spec.authentication is None:
            yield folder, SecureClient(bootstrap, spec.security_protocol, authorities)
            return
        for user in users:
            secret = self._secrets.find(user.namespace, user.name) if user.spec.authentication is not None else None
            if secret is None or PASSWORD not in secret.data or JAAS not in secret.data:
                continue
            yield (
                folder / user.name,
                SecureClient(
                    bootstrap,
                    spec.security_protocol,
                    authorities,
                    user.user_name,
                    secret.data[PASSWORD].decode(),
                    secret.data[JAAS].decode(),
                    str(self._secrets.path(user.namespace, user.name) / PASSWORD),
                ),
            )

    def _print(self, subject: tuple[ClusterKey, str], folder: Path, settings: str) -> None:
        if not settings or subject in self._printed:
            return
        self._printed.add(subject)
        (_, cluster), listener = subject
        self._say(f"{cluster}: settings of clients of listener {listener} are in {folder}; for Python:")
        for line in settings.splitlines():
            self._say(f"{_INDENT}{line}".rstrip())


def _is_complete(listener: BrokerListener) -> bool:
    """Return whether a client needs nothing else than certificates of authorities, and a name with its password."""
    authentication = listener.spec.authentication
    if authentication is None:
        return listener.spec.tls is not None and listener.spec.client_auth != "required"
    return authentication.type == "scram-sha-512" and listener.spec.client_auth != "required"


def _remove_others(root: Path, written: set[Path]) -> None:
    """Remove the settings of users and listeners that are gone."""
    for listener in root.iterdir() if root.is_dir() else ():
        if not any(place == listener or listener in place.parents for place in written):
            shutil.rmtree(listener, ignore_errors=True)
            continue
        for user in [path for path in listener.iterdir() if path.is_dir() and path not in written]:
            shutil.rmtree(user, ignore_errors=True)
