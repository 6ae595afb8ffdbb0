"""Create the folder of a node's data if it is missing, and explain missing permissions."""

import os
from pathlib import Path

from broker_runtime.errors import ConfigError
from broker_runtime.storage.disk.filesystem import FOLDER_MODE


def make_data_folder(path: Path) -> Path:
    """Create the folder if it is missing. Raises ConfigError if the folder cannot be read and written."""
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except PermissionError:
        raise ConfigError(_not_ours(path)) from None
    except OSError as error:
        raise ConfigError(f"log.dirs: {path} cannot be created: {error}") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(_not_ours(path))
    return path


def _not_ours(path: Path) -> str:
    """Return the error message. Volumes of a pod belong to root unless their kind honours fsGroup."""
    user = f"{os.geteuid()}:{os.getegid()}"
    found = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    state = found.stat()
    return (
        f"log.dirs: {path} cannot be written by {user} (uid:gid): {found} belongs to "
        f"{state.st_uid}:{state.st_gid}, mode {state.st_mode & 0o7777:04o}. Change its owner to {user}; in a pod "
        "use an init container, or the node if the kind of volume ignores fsGroup, like hostPath"
    )
