"""The identity of this process: the owner of its data folder, its incarnation, and the boot of its machine.

The folder's owner is in Kafka's meta.properties, written once and checked at every start.
"""

import os
from pathlib import Path
from uuid import UUID, uuid4

from broker_runtime.config import parse_properties
from broker_runtime.errors import ConfigError
from broker_runtime.storage.disk.run_record import UNKNOWN_BOOT
from kafka_bytes.properties import render_properties
from kafka_bytes.uuids import encode_uuid

FILE_NAME = "meta.properties"
_RESTORE = "restore the file, or write version=1 and the cluster.id and node.id of this folder into it"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_MS_MASK = (1 << 48) - 1
_CHANCE_MASK = (1 << 76) - 1


def claim_folder(log_dir: Path, node_id: int, cluster_id: str | None) -> str:
    """Return the cluster id of this folder. A new folder gets the id of the settings, or a generated one.

    Raises ConfigError if the folder belongs to another node or cluster.
    """
    path = log_dir / FILE_NAME
    if not path.exists():
        chosen = cluster_id or encode_uuid(uuid4())
        text = render_properties({"version": "1", "cluster.id": chosen, "node.id": str(node_id)})
        temporary = path.with_suffix(".tmp")
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        return chosen
    try:
        known = parse_properties(path.read_text(), str(path))
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged ({error}); {_RESTORE}") from error
    if not known.get("cluster.id") or "node.id" not in known:
        raise ConfigError(f"{path} lacks cluster.id or node.id; {_RESTORE}")
    if known.get("node.id") != str(node_id):
        raise ConfigError(f"log.dirs: {log_dir} belongs to node {known.get('node.id')}, not to node.id {node_id}")
    if cluster_id is not None and known.get("cluster.id") != cluster_id:
        raise ConfigError(f"log.dirs: {log_dir} belongs to cluster {known.get('cluster.id')}, not to {cluster_id}")
    return known["cluster.id"]


def boot_id() -> str:
    """Return an id that is constant while the kernel and its page cache live.

    UNKNOWN_BOOT if the system has no such id.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return UNKNOWN_BOOT


def new_incarnation(began_ms: int) -> UUID:
    """Return a UUID of version 7 (RFC 9562): the start by this host's clock, then random bits.

    A kubelet reports the end of a container with the same clock. So a reader of both times can tell whether this
    process was in that container.
    """
    return UUID(int=(began_ms & _MS_MASK) << 80 | 7 << 76 | uuid4().int & _CHANCE_MASK)
