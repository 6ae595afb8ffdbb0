"""The data folder of `sluicegate up`: its owner, the ports of its nodes, and the files of each node.

DIR/lock                     held by the running `up`; holds its pid DIR/state.json               what runs where, for
`sluicegate status` DIR/manifests.json           what was applied last, for `sluicegate plan --up` DIR/ports.json
kept, so that a restart keeps every address DIR/remembered.json          fields of statuses that outlive `up`: keys that
it has set, see planning.layout.broker_config DIR/<cluster>/node-<id>/     server.properties, broker.log, data/
DIR/<cluster>/clients/       settings of clients, see local.clients DIR/secrets/                 see local.secrets
"""

import fcntl
import json
import os
import random
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    # Models import pydantic and YAML, which `sluicegate audit` does not need.
    from sluicegate_operator.api.schema.metadata import Resource

LOOPBACK = "127.0.0.1"
FREE_PORTS = range(20_000, 32_000)
"""Range of loopback ports for nodes, below the one from which Linux takes the ports of outgoing connections."""


class DataDirError(Exception):
    """Error for a data folder that cannot be used. The message includes what to do."""


class DataDir:
    """The folder in which `sluicegate up` keeps its data.

    Use it as a context manager, which holds the folder's lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DataDirError(f"{self.path}: {error.strerror}; give another folder with --data-dir") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode().strip() or "unknown"
            os.close(handle)
            raise DataDirError(
                f"{self.path} is in use by another `sluicegate up` (pid {owner}); stop that process, or give"
                " another folder with --data-dir"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._lock = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def node_dir(self, cluster: str, node_id: int) -> Path:
        return self.path / cluster / f"node-{node_id}"

    @property
    def secrets_dir(self) -> Path:
        """Return the folder of Secrets, which has files NAMESPACE/NAME/KEY, see local.secrets."""
        return self.path / "secrets"

    def read_remembered(self) -> dict[str, dict[str, Any]]:
        path = self.path / "remembered.json"
        return _read_json(path) if path.exists() else {}

    def write_remembered(self, remembered: Mapping[str, Mapping[str, Any]]) -> None:
        _write_json(self.path / "remembered.json", remembered)

    def write_state(self, state: Mapping[str, Any]) -> None:
        _write_json(self.path / "state.json", state)

    def write_manifests(self, resources: "Iterable[Resource]") -> None:
        """Write the objects as a Kubernetes List, without the fields that only an API server would set."""
        items = [
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": resource.name, "namespace": resource.namespace},
                "spec": resource.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
            }
            for resource in resources
        ]
        _write_json(manifests_file(self.path), {"apiVersion": "v1", "kind": "List", "items": items})

    def remove_state(self) -> None:
        (self.path / "state.json").unlink(missing_ok=True)

    def read_ports(self) -> dict[str, int]:
        path = self.path / "ports.json"
        if not path.exists():
            return {}
        return {str(key): int(port) for key, port in _read_json(path).items()}

    def write_ports(self, ports: Mapping[str, int]) -> None:
        _write_json(self.path / "ports.json", ports)


def manifests_file(path: Path) -> Path:
    return path / "manifests.json"


def read_state(path: Path) -> dict[str, Any]:
    """Return the state of the `up` that runs in that folder. Raises DataDirError if no `up` runs there."""
    lock = path / "lock"
    owner = lock.read_text().strip() if lock.exists() else ""
    # Taking the lock itself would be more reliable, but could refuse an `up` that starts at the same moment.
    if not owner.isdigit() or not _is_alive(int(owner)):
        raise DataDirError(
            f"no `sluicegate up` runs in {path.absolute()}; start one, or name its folder with --data-dir"
        )
    if not (path / "state.json").exists():
        raise DataDirError(f"`sluicegate up` in {path.absolute()} is still starting; try again in a moment")
    return _read_json(path / "state.json")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class PortBook:
    """The loopback ports of nodes: the remembered port, else the wanted one, else any free one."""

    def __init__(self, remembered: Mapping[str, int], is_free: Callable[[int], bool] | None = None) -> None:
        self._ports = dict(remembered)
        self._is_free = is_free or is_port_free
        self._taken: set[int] = set()

    @property
    def ports(self) -> dict[str, int]:
        return dict(self._ports)

    def port_for(self, key: str, wanted: int | None) -> int:
        """Return the port for `key`, the same for the life of this object.

        A remembered port that another process uses meanwhile is replaced.
        """
        if (known := self._ports.get(key)) in self._taken and known is not None:
            return known
        mine = {port for other, port in self._ports.items() if other != key} | self._taken
        for candidate in (known, wanted):
            if candidate is not None and candidate not in mine and self._is_free(candidate):
                return self._take(key, candidate)
        for candidate in random.sample(FREE_PORTS, len(FREE_PORTS)):
            if candidate not in mine and self._is_free(candidate):
                return self._take(key, candidate)
        raise DataDirError(f"no free port from {FREE_PORTS.start} to {FREE_PORTS.stop - 1} on {LOOPBACK}")

    def _take(self, key: str, port: int) -> int:
        self._ports[key] = port
        self._taken.add(port)
        return port

    def forget(self, key: str) -> None:
        self._taken.discard(self._ports.pop(key, 0))


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise DataDirError(f"{path}: {error}; remove the file to start from scratch") from None
    if not isinstance(value, dict):
        raise DataDirError(f"{path}: the file is not a JSON object; remove the file to start from scratch")
    return value


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write the file atomically: readers never see half of it."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(value, indent=2) + "\n")
    draft.replace(path)
