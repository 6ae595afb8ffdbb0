"""`python -m broker_runtime --config server.properties`."""

import signal
import sys

from broker_runtime.event_loop_import import import_event_loop


def main() -> int:
    # Until node_process handles signals, a Ctrl-C just ends the process: loading takes half a second, and nothing has
    # started yet that would have to be stopped.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_event_loop()
    from broker_runtime.node import node_process  # noqa: PLC0415 - loaded only now, as explained above

    return node_process.main()


if __name__ == "__main__":
    sys.exit(main())
