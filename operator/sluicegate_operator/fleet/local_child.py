"""Run as a program by local_process.py: ties this process to its parent's life, then becomes the given command.

It imports nothing of the package, so that it costs milliseconds. On Linux the kernel kills the process when the parent
dies, however it died (prctl PR_SET_PDEATHSIG, which survives exec); elsewhere it lives on and is stopped by hand.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_ORPHAN = 75


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        # The parent may have died before prctl took hold.
        if os.getppid() != parent:
            sys.exit(EXIT_ORPHAN)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
