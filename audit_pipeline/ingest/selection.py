"""Which events `tail` shows: by table, client, topic and API, without Sluicegate's own clients. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from audit_pipeline.patterns import fits
from audit_pipeline.results.tables import OWN_CLIENTS
from audit_pipeline.spool.events import Event


@dataclass(frozen=True, slots=True)
class Selection:
    """The filter that selects audit events to show.

    A name is whole, or a beginning and a star. An event without the field of a filter is not shown. Own clients are
    shown with `is_with_own`, or if `client` asks for one.
    """

    tables: Collection[str] = ()
    client: str | None = None
    topic: str | None = None
    api: str | None = None
    is_with_own: bool = False

    def has(self, table: str, event: Event, api_names: Mapping[int, str]) -> bool:
        """Return whether the filter selects an audit event. `api_names` are those of its spool."""
        if self.tables and table not in self.tables:
            return False
        client = event.get("client_id")
        is_own = event.get("replica_id") is not None or (client is not None and client.startswith(OWN_CLIENTS))
        if is_own and not self.is_with_own and self.client is None:
            return False
        api = event.get("api") or api_names.get(event.get("api_key", -1))
        return fits(self.client, client) and fits(self.topic, _topic(event)) and fits(self.api, api)


def _topic(event: Event) -> str | None:
    """Return the topic of an event: its own, or the one that it changes."""
    topic: str | None = event.get("topic")
    if topic is None and event.get("resource_type") == "topic":
        topic = event["resource_name"]
    return topic
