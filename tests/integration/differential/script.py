"""All sequences of the suite, by the name under which their answers are compared."""

from collections.abc import Mapping

from tests.integration.differential import client_quotas, configs, frames
from tests.integration.differential.play import Sequence

SEQUENCES: Mapping[str, Sequence] = {
    "api versions": frames.api_versions,
    "advertised ranges": frames.advertised_ranges,
    "odd frames": frames.odd_frames,
    "broker configs": configs.broker_configs,
    "config resources": configs.resources,
    "replaced configs": configs.replaced_configs,
    "config precedence": configs.precedence,
    "topic configs": configs.topic_configs,
    "quota changes": client_quotas.alterations,
    "quota filters": client_quotas.filters,
}
