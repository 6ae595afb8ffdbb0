"""Consumer groups of real clients beside a producer with acknowledgements, and the records that each group has read.

Every member is a process (`counted_member`). A group has read what its members report as read. At the end that must be
every record, whatever was killed meanwhile.
"""

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import ConnectionEnded, WireClient

ROOT = Path(__file__).resolve().parents[3]
LEAVE_TIMEOUT_S = 30.0
PRODUCE_PAUSE_S = 0.004
LOOK_PAUSE_S = 0.2


class GroupProducer:
    """A producer that writes its own count to the partitions in turn, with acks=all, until `stop`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self.topic = bootstrap, topic
        self.partitions = partitions
        self.acknowledged: set[bytes] = set()
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-producer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 200,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 500,
            "log_level": 2,
        }
        producer = Producer(settings)
        sent = 0
        while not self._stop.is_set():
            value = b"%d" % sent
            try:
                producer.produce(self.topic, value, partition=sent % self.partitions, on_delivery=self._delivered)
                sent += 1
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                # A new partition that the client does not know yet.
            producer.poll(0)
            self._stop.wait(PRODUCE_PAUSE_S)
        left = producer.flush(60)
        if left:
            self.failures.append(f"{left} records were neither acknowledged nor refused")

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged.add(message.value() or b"")


class Member:
    """One process of a group, and what it has reported."""

    def __init__(self, command: Sequence[str], heard: Callable[[str], None]) -> None:
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._heard = heard
        self.errors: list[str] = []
        self.complaints = ""
        """Output of the producer on its standard error."""
        self.has_left = False
        self.read = 0
        self._threads = [threading.Thread(target=self._listen), threading.Thread(target=self._note)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                # The process was killed while it wrote this line.
                break
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "error":
                self.errors.append(rest)
            elif kind == "left":
                self.has_left = True
            else:
                self.read += kind == "read"
                self._heard(line)

    def _note(self) -> None:
        assert self._process.stderr is not None
        self.complaints = self._process.stderr.read()

    def kill(self) -> None:
        """Kill the process as power loss does: no broker is notified."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._end()
        assert self.has_left, f"it did not leave but failed:\n{self.complaints[-4000:]}"

    def _end(self) -> None:
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def check_alive(self) -> None:
        code = self._process.poll()
        assert code is None, f"a member ended by itself with code {code}:\n{self.complaints[-4000:]}"


class Group:
    """Members of one client family that read one topic together."""

    def __init__(self, command: Sequence[str], name: str, bootstrap: str, topic: str) -> None:
        """`command` starts a member; it receives the addresses, the group's name and the topic."""
        self.name, self._topic = name, topic
        self._command = (*command, bootstrap, name, topic)
        self.members: list[Member] = []
        self._lock = threading.Lock()
        self._seen: dict[int, dict[int, bytes]] = defaultdict(dict)
        self._values: set[bytes] = set()
        self.changed: list[str] = []
        """Records that had another value when they were read again."""
        self.repeated = 0
        self.committed: dict[int, int] = defaultdict(int)
        """The greatest offset of each partition that was reported to a member as committed."""

    def join(self, count: int = 1) -> None:
        self.members += [Member(self._command, self._hear) for _ in range(count)]

    def kill(self) -> None:
        """Kill the member that joined first: in the classic protocol it leads."""
        self.members.pop(0).kill()

    def leave(self) -> None:
        self.members.pop(0).leave()

    def end(self) -> None:
        while self.members:
            self.members.pop().kill()

    def _hear(self, line: str) -> None:
        with self._lock:
            match line.split():
                case ["read", partition, offset, value]:
                    seen, at, text = self._seen[int(partition)], int(offset), value.encode()
                    self.repeated += at in seen
                    if seen.setdefault(at, text) != text:
                        self.changed.append(f"{partition}-{offset} was {seen[at]!r} and is {text!r}")
                    self._values.add(text)
                case ["committed", partition, offset]:
                    self.committed[int(partition)] = max(self.committed[int(partition)], int(offset))
                case _:
                    self.changed.append(f"nobody understands {line!r}")

    def missing(self, values: set[bytes]) -> set[bytes]:
        with self._lock:
            return values - self._values

    def seen(self) -> Mapping[int, Mapping[int, bytes]]:
        with self._lock:
            return {partition: dict(records) for partition, records in self._seen.items()}

    def has_read(self, values: set[bytes]) -> bool:
        for member in self.members:
            member.check_alive()
        return not self.missing(values)

    def standing(self, values: set[bytes]) -> str:
        """Progress and errors of the members, to explain why the group makes no progress."""
        errors = [member.errors[-3:] for member in self.members]
        read = [member.read for member in self.members]
        return f"{self.name}: {len(self.missing(values))} of {len(values)} missing, read {read}, errors {errors}"


class CommittedOffsets:
    """Checks all the time the committed offsets of groups: they must never decrease or disappear."""

    def __init__(self, bootstrap: str, groups: Sequence[str]) -> None:
        self._addresses = [address(each) for each in bootstrap.split(",")]
        self._groups = groups
        self.offsets: dict[str, dict[int, int]] = {group: {} for group in groups}
        self.looks = 0
        self.fallen: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committed-offsets")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_PAUSE_S):
            for group in self._groups:
                self.look(group)

    def look(self, group: str) -> dict[int, int] | None:
        """Read the committed offsets once; None if no coordinator answers at the moment."""
        found = self._found(group)
        if found is None:
            return None
        before = self.offsets[group]
        for partition, offset in before.items():
            if found.get(partition, -1) < offset:
                self.fallen.append(f"{group}: partition {partition} went from {offset} to {found.get(partition)}")
        self.offsets[group] = found
        self.looks += 1
        return found

    def _found(self, group: str) -> dict[int, int] | None:
        try:
            coordinator = coordinator_of(self._addresses, group)
            if coordinator is None:
                return None
            with WireClient((coordinator["host"], coordinator["port"]), timeout_s=5.0) as client:
                answer = client.ask("offset_fetch", 5, group_id=group, topics=None)
        except (ConnectionEnded, OSError):
            return None
        parts = [part for topic in answer["topics"] for part in topic["partitions"]]
        if answer["error_code"] != "none" or any(part["error_code"] != "none" for part in parts):
            return None
        return {part["partition_index"]: part["committed_offset"] for part in parts}


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def coordinator_of(addresses: Sequence[tuple[str, int]], group: str) -> Mapping[str, Any] | None:
    """The group's coordinator as reported by the first broker that can be asked; None while there is none.

    Raises ConnectionEnded, OSError.
    """
    for place in addresses:
        try:
            with WireClient(place, timeout_s=5.0) as client:
                (found,) = client.ask("find_coordinator", 4, key_type=0, coordinator_keys=(group,))["coordinators"]
        except ConnectionRefusedError:
            continue
        return found if found["error_code"] == "none" else None
    return None


def wait_until_read(groups: Sequence[Group], producer: GroupProducer, what: str) -> None:
    """Wait until every group has read all that has been acknowledged so far."""
    values = set(producer.acknowledged)
    for group in groups:
        try:
            until(lambda group=group: group.has_read(values), what)  # type: ignore[misc]
        except AssertionError as error:
            raise AssertionError(f"{error}; {group.standing(values)}") from None


def member_command(family: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.support.groups.counted_member", family)
