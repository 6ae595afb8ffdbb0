"""A partition of the simulated world: one log, which moves with its leader."""

from broker_runtime.replication.leader import LeaderReplica
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import leading
from tests.support.logs.transactions import committed_values, write


class SimulatedPartition:
    """A log and its leader. Every record is durable at once; the transfer to another leader loses nothing."""

    def __init__(self, leader: int) -> None:
        self.house = LogHouse()
        self.leader = leader
        self.replica: LeaderReplica = leading(self.house.log, leader)
        self.committed: list[bytes] = []
        """Values of committed transactions, in the order of the log."""
        self.written: list[tuple[bytes, tuple[str, int]]] = []
        """Values in the order of the log, with their transaction."""

    def move(self, leader: int) -> None:
        """Make another broker the leader, in the next leader epoch."""
        epoch = self.replica.leader_epoch + 1
        self.replica.resign()
        self.leader = leader
        self.replica = leading(self.house.log, leader, epoch=epoch)

    def write(self, value: bytes, transaction: tuple[str, int], producer_id: int, epoch: int, sequence: int) -> None:
        """Append a batch with one record of a transaction."""
        write(
            self.house.log,
            value,
            producer_id=producer_id,
            epoch=epoch,
            sequence=sequence,
            leader_epoch=self.replica.leader_epoch,
        )
        self.written.append((value, transaction))

    def problems(self, name: str, committed: set[tuple[str, int]]) -> list[str]:
        """Return the faults of the log after all transactions have ended. `committed`: those with a commit."""
        log = self.house.log
        expected = [value for value, transaction in self.written if transaction in committed]
        found = committed_values(log)
        problems = []
        if log.last_stable_offset != log.log_end_offset:
            problems.append(f"{name}: last stable offset {log.last_stable_offset}, end {log.log_end_offset}")
        if found != expected:
            problems.append(f"{name}: committed {found}, expected {expected}")
        return problems
