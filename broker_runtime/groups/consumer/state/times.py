"""The session timeout, the heartbeat interval and the assignment interval of one group of KIP-848. Pure.

They are read each time, so that a change of the group's configuration is in force immediately. A session that has begun
keeps its timeout; the next heartbeat begins one with the new timeout.
"""

from broker_runtime.config.keys.group_resource import GroupTimes, group_times
from broker_runtime.groups.environment import GroupEnvironment


def times_of(group_id: str, environment: GroupEnvironment) -> GroupTimes:
    return group_times(environment.config, environment.image.configs.of_group(group_id))
