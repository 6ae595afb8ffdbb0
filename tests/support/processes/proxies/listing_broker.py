"""A broker process that can list its imported modules.

`python -m tests.support.processes.proxies.listing_broker --config ...` starts it.

At SIGUSR1 it writes their names to the file that the environment variable MODULES_FILE names, a line each.
"""

import os
import signal
import sys
from pathlib import Path

from broker_runtime.__main__ import main


def _write(*_: object) -> None:
    target = Path(os.environ["MODULES_FILE"])
    unfinished = target.with_suffix(".part")
    unfinished.write_text("\n".join(sorted(sys.modules)), encoding="utf-8")
    unfinished.rename(target)


if __name__ == "__main__":
    # kio imports hypothesis if it is installed; a broker's image has no packages of developers.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    signal.signal(signal.SIGUSR1, _write)
    sys.exit(main())
