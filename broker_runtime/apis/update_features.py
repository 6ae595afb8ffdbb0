"""UpdateFeatures (57), versions 0 to 2 (KIP-584): there are no features here whose level could be changed."""

from broker_runtime.apis.call import Call
from broker_runtime.apis.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import UpdateFeaturesRequest
from broker_runtime.wire.versions import UPDATE_FEATURES


def handle(request: UpdateFeaturesRequest, call: Call, context: NodeContext) -> Fields:
    """Where one cannot be changed none is, and the answer is the request's, as in Kafka."""
    if not request.feature_updates:
        return {"error_code": ErrorCode.NONE, "error_message": None, "results": []}
    first = request.feature_updates[0]
    why = (
        "The update failed for all features since the following feature had an error: Invalid update version "
        f"{first.max_version_level} for feature {first.feature}. Local controller {context.settings.node_id} does not "
        "support this feature."
    )
    return {"error_code": ErrorCode.INVALID_UPDATE_VERSION, "error_message": why, "results": []}


API = ApiSpec(key=UPDATE_FEATURES, name="UpdateFeatures", versions=(0, 2), handle=handle)
