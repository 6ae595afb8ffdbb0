"""The partition of a coordinator's topic that stores an id: of a group, or of a transactional producer. Pure."""


def partition_of(coordinated_id: str, partitions: int) -> int:
    """Return the partition by Java's hash code of the id, as in Apache Kafka: clients and tools may rely on it."""
    code = 0
    units = coordinated_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    magnitude = code if code < 0x8000_0000 else 0x1_0000_0000 - code
    # The smallest integer has no positive counterpart: Kafka counts it as 0.
    return 0 if code == 0x8000_0000 else magnitude % partitions
