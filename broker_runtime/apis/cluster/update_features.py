"""UpdateFeatures (57), versions 0 to 2 (KIP-584): levels are fixed, so only an update to the current one succeeds."""

from collections.abc import Sequence

from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, NodeContext
from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.steps import Steps, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.protocol_versions import FEATURES
from broker_runtime.wire.requests import FeatureUpdateKey, UpdateFeaturesRequest
from broker_runtime.wire.versions import UPDATE_FEATURES

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_TYPES_SINCE = 1
_UPDATES_OF_A_STEP = 32


def handle(request: UpdateFeaturesRequest, call: Call, context: NodeContext) -> Steps[Fields]:
    """Answer an UpdateFeatures request. If one feature cannot be changed, the whole request fails, as in Kafka."""
    updates: Sequence[FeatureUpdateKey] = request.feature_updates
    for number, update in enumerate(updates, 1):
        problem = _problem(update, call.version, context.settings.node_id)
        if problem is not None:
            why = (
                "The update failed for all features since the following feature had an error: Invalid update version "
                f"{update.max_version_level} for feature {update.feature}. {problem}"
            )
            return {"error_code": ErrorCode.INVALID_UPDATE_VERSION, "error_message": why, "results": []}
        if number % _UPDATES_OF_A_STEP == 0:
            yield
    return {"error_code": ErrorCode.NONE, "error_message": None, "results": (yield from each(updates, _result))}


def _result(update: FeatureUpdateKey) -> Fields:
    return {"feature": update.feature, "error_code": ErrorCode.NONE, "error_message": ErrorCode.NONE.name}


def _kind(update: FeatureUpdateKey, version: int) -> int:
    if version >= _TYPES_SINCE:
        return update.upgrade_type
    return _SAFE_DOWNGRADE if getattr(update, "allow_downgrade", False) else _UPGRADE


def _problem(update: FeatureUpdateKey, version: int, node_id: int) -> str | None:
    """Return the reason why an update is invalid, in the words of Kafka's controller, or None."""
    wanted, known = update.max_version_level, FEATURES.get(update.feature)
    kind = _kind(update, version)
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    if known is None:
        return f"Local controller {node_id} does not support this feature."
    if not known.lowest <= wanted <= known.highest:
        return f"Local controller {node_id} only supports versions {known.lowest}-{known.highest}"
    if wanted == known.highest:
        return None
    if kind == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return f"The version of this feature is fixed at {known.highest}: Sluicegate has no older behaviour to return to."


API = ApiSpec(key=UPDATE_FEATURES, name="UpdateFeatures", versions=(0, 2), handle=handle)
