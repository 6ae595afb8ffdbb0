"""A node on a disk that hangs wherever a test wants it: `python -m tests.support.fakes.disks.hung_fsync --config ...`.

While the file named by SLUICEGATE_TEST_HUNG_FSYNC exists, no fsync returns for a path that contains one of its lines.
The rest of the process is the real one.
"""

import os
import threading
from pathlib import Path

from broker_runtime.node.node_process import main

VARIABLE = "SLUICEGATE_TEST_HUNG_FSYNC"
_PAUSE_S = 0.01
_real_fsync = os.fsync


def _hangs(path: str, orders: Path) -> bool:
    try:
        return any(part and part in path for part in orders.read_text().splitlines())
    except FileNotFoundError:
        return False


def _fsync(fd: int) -> None:
    path, orders, never = os.readlink(f"/proc/self/fd/{fd}"), Path(os.environ[VARIABLE]), threading.Event()
    while _hangs(path, orders):
        never.wait(_PAUSE_S)
    _real_fsync(fd)


if __name__ == "__main__":
    os.fsync = _fsync  # type: ignore[assignment]
    raise SystemExit(main())
