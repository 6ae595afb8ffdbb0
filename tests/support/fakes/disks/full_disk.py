"""A node on a disk that is full whenever a test wants it: `python -m tests.support.fakes.disks.full_disk --config ...`.

The disk is full while the file named by SLUICEGATE_TEST_FULL_DISK exists. Then a write of topic records finds space for
one half, and a write of the reserve finds none. The rest of the process is the real one.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from broker_runtime.__main__ import main
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.storage.disk.filesystem import Buffer
from broker_runtime.storage.log_dir.log_dir_health import RESERVE

VARIABLE = "SLUICEGATE_TEST_FULL_DISK"
_real_pwritev = os.pwritev


def _pwritev(fd: int, buffers: Sequence[Buffer], offset: int) -> int:
    path = Path(os.readlink(f"/proc/self/fd/{fd}"))
    is_records = path.suffix == ".log" and METADATA_TOPIC not in path.parent.name
    if (is_records or path.name == RESERVE) and Path(os.environ[VARIABLE]).exists():
        data = b"".join(buffers)
        if is_records:
            _real_pwritev(fd, [data[: len(data) // 2]], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return _real_pwritev(fd, buffers, offset)


if __name__ == "__main__":
    os.pwritev = _pwritev  # type: ignore[assignment]
    raise SystemExit(main())
