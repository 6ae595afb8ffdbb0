"""Which partition of __consumer_offsets keeps a group. Pure."""


def partition_of(group_id: str, partitions: int) -> int:
    """By the hash code that Java has for the id, as in Apache Kafka: clients and tools may count on it."""
    code = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    magnitude = code if code < 0x8000_0000 else 0x1_0000_0000 - code
    # The smallest number has no positive one: Kafka counts it as 0.
    return 0 if code == 0x8000_0000 else magnitude % partitions
