"""The good and the bad manifests of all kinds: the models and a real API server are tested with the same ones."""

from tests.support.manifests.authority_manifests import BAD_AUTHORITIES
from tests.support.manifests.bad_manifests import BAD, GOOD
from tests.support.manifests.external_manifests import BAD_EXTERNAL, GOOD_EXTERNAL
from tests.support.manifests.listener_manifests import BAD_LISTENERS, GOOD_LISTENERS
from tests.support.manifests.observer_manifests import BAD_OBSERVERS, GOOD_OBSERVERS
from tests.support.manifests.pipeline_manifests import BAD_PIPELINES, GOOD_PIPELINES
from tests.support.manifests.quota_manifests import BAD_QUOTAS, GOOD_QUOTAS
from tests.support.manifests.tag_manifests import BAD_TAGS, GOOD_TAGS
from tests.support.manifests.user_manifests import BAD_USERS, GOOD_USERS

ALL_GOOD = (
    GOOD + GOOD_LISTENERS + GOOD_OBSERVERS + GOOD_PIPELINES + GOOD_QUOTAS + GOOD_TAGS + GOOD_EXTERNAL + GOOD_USERS
)
ALL_BAD = (
    BAD
    + BAD_LISTENERS
    + BAD_OBSERVERS
    + BAD_PIPELINES
    + BAD_QUOTAS
    + BAD_TAGS
    + BAD_EXTERNAL
    + BAD_USERS
    + BAD_AUTHORITIES
)
