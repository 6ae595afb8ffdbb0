"""Makes the transaction coordinator of a broker, with its dispatch of markers."""

from broker_runtime.transactions.markers.dispatch import marker_dispatch
from broker_runtime.transactions.on_demand import CoordinatorParts
from broker_runtime.transactions.service import TransactionCoordinatorService


def transaction_coordinator(parts: CoordinatorParts) -> TransactionCoordinatorService:
    """Return the coordinator of the broker that has these parts."""
    markers = marker_dispatch(
        parts.node_id,
        parts.image,
        parts.config(),
        parts.local_markers(),
        parts.link_to,
        parts.slices,
        parts.clock,
    )
    return TransactionCoordinatorService(
        parts.is_to_lead,
        parts.config,
        parts.image,
        parts.clock,
        parts.producer_ids,
        markers,
        parts.transaction_version,
    )
