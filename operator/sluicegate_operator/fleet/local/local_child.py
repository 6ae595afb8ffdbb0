"""Program that local_process.py runs: it ties this process to its parent's life, then becomes the given command.

It imports nothing of the package, so that it starts in milliseconds. On Linux the kernel kills the process when the
parent dies, for whatever reason (prctl PR_SET_PDEATHSIG, which survives exec). On other systems it survives the parent,
and the user must stop it.
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
        # The parent may have died before prctl took effect.
        if os.getppid() != parent:
            sys.exit(EXIT_ORPHAN)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
