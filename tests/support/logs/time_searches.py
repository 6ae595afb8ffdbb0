"""A search by time without a loop or a thread."""

from broker_runtime.storage.log.time_search import FoundRecord, Search


def run_through(search: Search) -> FoundRecord | None:
    """Run every step at once, in this thread. Raises KafkaError, OSError."""
    try:
        step = next(search)
        while True:
            step = search.send(step())
    except StopIteration as ended:
        found: FoundRecord | None = ended.value
        return found
