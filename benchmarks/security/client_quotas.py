"""Effect and cost of client quotas. `.venv/bin/python -m benchmarks.security.client_quotas` prints the cost.

Effect (`waits_beside`): one client produces as fast as it can, over four connections in a process of its own. Its
neighbour produces a record every 5 ms, and its waits are measured.

Cost: the processor time of the broker for small Produce and Fetch requests, without any quota, with a quota of another
client, and with a quota of this client that it does not exceed.
"""

import multiprocessing
import multiprocessing.sharedctypes
import socket
import threading
import time

from benchmarks.processor_time import process_times
from benchmarks.wire import IN_FLIGHT, connected, fetch_frame, produce_frame
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

GREEDY, NEIGHBOUR = "wire", "neighbour"
"""Client ids; benchmarks.wire sends the first one."""
TOPICS = ("greedy", "small")
CONNECTIONS = 4
PAUSE_S = 0.005
ROUNDS = 5
REQUESTS = 4_000


def main() -> None:
    with BrokerProcess() as broker:
        create_topics(broker.port())
        _show_cost(broker)


def create_topics(port: int) -> None:
    with WireClient(("127.0.0.1", port)) as client:
        for name in TOPICS:
            topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
            client.ask("create_topics", 7, topics=[topic], timeout=30_000, validate_only=False)


def waits_beside(port: int, *, is_greedy: bool, seconds: float, before_s: float) -> tuple[list[float], float]:
    """Return the neighbour's waits in seconds, and the bytes a second of the other client, if it exists.

    The other client begins `before_s` earlier.
    """
    sent = multiprocessing.Value("q", 0)
    other = multiprocessing.Process(target=_take_all, args=(port, sent))
    pause = threading.Event()
    if is_greedy:
        other.start()
    pause.wait(before_s)
    waits = []
    frame = produce_frame("small", 100, 100).replace(b"\x00\x04wire", b"\x00\x09neighbour")
    frame = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
    before, begin_s = sent.value, time.perf_counter()
    with connected("127.0.0.1", port) as client:
        reader = client.makefile("rb")
        while time.perf_counter() < begin_s + seconds:
            asked_s = time.perf_counter()
            client.sendall(frame)
            reader.read(int.from_bytes(reader.read(4), "big"))
            waits.append(time.perf_counter() - asked_s)
            pause.wait(PAUSE_S)
    rate = (sent.value - before) / (time.perf_counter() - begin_s)
    if is_greedy:
        other.terminate()
        other.join()
    return waits, rate


def _take_all(port: int, sent: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """Produce as fast as the broker answers."""

    def run() -> None:
        frame = produce_frame("greedy", 1_000, 100_000)
        with socket.create_connection(("127.0.0.1", port)) as client:
            reader = client.makefile("rb", buffering=65_536)
            for _ in range(IN_FLIGHT):
                client.sendall(frame)
            while True:
                reader.read(int.from_bytes(reader.read(4), "big"))
                with sent.get_lock():
                    sent.value += len(frame)
                client.sendall(frame)

    for _ in range(CONNECTIONS - 1):
        threading.Thread(target=run, daemon=True).start()
    run()


def _show_cost(broker: BrokerProcess) -> None:
    print("| requests | no quota | of another client | of this client |\n|---|---|---|---|")
    frames = {"Produce": produce_frame("small", 100, 100), "Fetch": fetch_frame("small", 0, 10_000)}
    for name, frame in frames.items():
        found: dict[str | None, list[float]] = {None: [], NEIGHBOUR: [], GREEDY: []}
        for _ in range(ROUNDS):
            for client_id, figures in found.items():
                if client_id is not None:
                    set_quota(broker.port(), client_id, 1e12)
                figures.append(_us_of(broker, frame))
                if client_id is not None:
                    set_quota(broker.port(), client_id, None)
        print(
            f"| {name}, us of the broker's processor | "
            + " | ".join(f"{min(each):.1f}" for each in found.values())
            + " |"
        )


def _us_of(broker: BrokerProcess, frame: bytes) -> float:
    with connected("127.0.0.1", broker.port()) as client:
        reader = client.makefile("rb")
        before = sum(process_times(broker.pid))
        for _ in range(REQUESTS):
            client.sendall(frame)
            reader.read(int.from_bytes(reader.read(4), "big"))
        return (sum(process_times(broker.pid)) - before) / REQUESTS * 1e6


def set_quota(port: int, client_id: str, value: float | None) -> None:
    """Set both byte rates of a client id, or remove them."""
    with WireClient(("127.0.0.1", port)) as client:
        changes = [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key in ("producer_byte_rate", "consumer_byte_rate")
        ]
        entry = {"entity": [{"entity_type": "client-id", "entity_name": client_id}], "ops": changes}
        client.ask("alter_client_quotas", 1, entries=[entry], validate_only=False)
        while True:
            described = client.ask("describe_client_quotas", 1, components=[], strict=False)["entries"]
            if any(each["entity"][0]["entity_name"] == client_id for each in described) is (value is not None):
                return


if __name__ == "__main__":
    main()
