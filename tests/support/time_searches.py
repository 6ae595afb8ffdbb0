"""A look-up by time without a loop or a thread."""

from broker_runtime.storage.time_search import FoundRecord, Search


def run_through(search: Search) -> FoundRecord | None:
    """Every step at once, here. Raises KafkaError, OSError."""
    try:
        step = next(search)
        while True:
            step = search.send(step())
    except StopIteration as ended:
        found: FoundRecord | None = ended.value
        return found
