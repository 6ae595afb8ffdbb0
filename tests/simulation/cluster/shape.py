"""How large a simulated cluster is, and for how long faults befall it."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """One controller keeps metadata in files, several in the API server."""

    brokers: int = 3
    controllers: int = 1
    partitions: int = 2
    replication_factor: int = 3
    min_insync_replicas: int = 2
    faults_s: float = 12.0


def shape_of(seed: int) -> Shape:
    rng = random.Random(f"{seed}/shape")
    brokers = rng.choice((3, 3, 3, 4))
    return Shape(
        brokers=brokers,
        controllers=rng.choice((1, 1, 2, 3)),
        partitions=rng.choice((1, 2, 3)),
        faults_s=rng.uniform(6.0, 16.0),
    )
