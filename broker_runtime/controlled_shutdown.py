"""Ask the broker of this machine or pod to hand over its leaderships: for a preStop hook, before the signal.

    python -m broker_runtime.controlled_shutdown --http-port 9404 --deadline-s 42

It sends one request to the broker's own HTTP listener at $POD_IP (loopback without it), and prints the answer. It
always exits with 0: a failing hook would not delay anything. The signal follows in any case, and the broker then
continues its shutdown. Pods of earlier images have the same hook, so the module keeps its name.
"""

import argparse
import http.client
import os
import sys
from collections.abc import Sequence

PATH = "/controlled-shutdown"
SHOWN_BYTES_MAX = 500


def ask(host: str, port: int, deadline_s: float) -> str:
    """Ask the broker to shut down; return its answer, or why there is no answer, in a sentence."""
    connection = http.client.HTTPConnection(host, port, timeout=deadline_s)
    try:
        connection.request("POST", PATH)
        response = connection.getresponse()
        body = response.read(SHOWN_BYTES_MAX).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"the broker at {host}:{port} did not answer: {error or type(error).__name__}"
    finally:
        connection.close()
    return f"the broker answered {response.status}: {body}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker_runtime.controlled_shutdown")
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--deadline-s", type=float, required=True)
    given = parser.parse_args(arguments)
    outcome = ask(os.environ.get("POD_IP") or "127.0.0.1", given.http_port, given.deadline_s)
    sys.stdout.write(f"{outcome}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
