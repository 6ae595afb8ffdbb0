"""The APIs that change what other clients see: recorded one by one at every level except `off`. Pure."""

from typing import Final

_NAMES: Final = {
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    30: "CreateAcls",
    31: "DeleteAcls",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    37: "CreatePartitions",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    47: "OffsetDelete",
    49: "AlterClientQuotas",
    51: "AlterUserScramCredentials",
    57: "UpdateFeatures",
    64: "UnregisterBroker",
    30_008: "AcceptLogLoss",
}
ADMIN_APIS: Final = frozenset(_NAMES)
