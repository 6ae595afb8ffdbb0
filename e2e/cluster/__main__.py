"""`python -m e2e.cluster`: runs a control plane in the foreground until Ctrl-C, for use with kubectl."""

import signal
import sys

from e2e.cluster.control_plane import ControlPlane
from tests.support.obtain.cache import ObtainError


def main() -> int:
    try:
        plane = ControlPlane()
    except ObtainError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    stop_signals = {signal.SIGINT, signal.SIGTERM}
    with plane:
        # Block signals only here: the programs of the control plane must not inherit a blocked SIGTERM.
        signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
        sys.stdout.write(f"export KUBECONFIG={plane.kubeconfig}\n")
        sys.stdout.write("# logs are in the same folder; Ctrl-C ends it all and removes the folder\n")
        sys.stdout.flush()
        signal.sigwait(stop_signals)
    return 0


if __name__ == "__main__":
    sys.exit(main())
