"""ConnectionQuotas on ranges and workloads, observed ones, and ones that expire.

Some are good, others bad with the sentence that refuses them.
"""

from typing import Any

from tests.support.manifests.bad_manifests import BadManifest, GoodManifest, quota

_PODS = {"matchLabels": {"app.kubernetes.io/name": "billing"}}


def of_pods(**said: Any) -> dict[str, Any]:
    return {"workload": {"podSelector": _PODS} | said}


def adaptive(least: int = 50, most: int = 2000, p99: str = "20ms") -> dict[str, Any]:
    return {"minRate": least, "maxRate": most, "objective": {"requestP99": p99}}


OF_CLUSTER: dict[str, Any] = {"maxConnectionCreationRate": 300, "scope": "Cluster"}


def _with(expression: dict[str, Any]) -> dict[str, Any]:
    return {"workload": {"podSelector": {"matchExpressions": [expression]}}}


GOOD_QUOTAS = (
    *(
        GoodManifest(f"a quota of the range {cidr}", quota({"cidr": cidr}))
        for cidr in ("10.0.0.0/8", "203.0.113.7/32", "0.0.0.0/0", "2001:db8::/32", "::/0", "2001:DB8:0::/48")
    ),
    GoodManifest("a limit that a range shares", quota({"cidr": "10.0.0.0/8"}, maxConnections=9, limitIs="Shared")),
    GoodManifest("a limit of each pod", quota(of_pods(), maxConnections=9, limitIs="PerAddress")),
    GoodManifest("every pod of every namespace", quota({"workload": {"podSelector": {}, "namespaceSelector": {}}})),
    *(
        GoodManifest(f"pods by {expression['operator']}", quota(_with({"key": "tier"} | expression)))
        for expression in (
            {"operator": "In", "values": ["web", ""]},
            {"operator": "NotIn", "values": ["web"]},
            {"operator": "Exists"},
            {"operator": "DoesNotExist", "values": []},
        )
    ),
    GoodManifest("an observed address", quota({"ip": "10.0.0.1"}, maxConnections=1, mode="Observe")),
    GoodManifest("an observed workload", quota(of_pods(), maxConnections=1, mode="Observe")),
    GoodManifest("an adaptive rate of a listener", quota({"listener": "EXTERNAL"}, adaptive=adaptive())),
    GoodManifest("an adaptive rate with a count", quota(maxConnections=1, adaptive=adaptive(1, 1, "5ms"))),
    *(
        GoodManifest(f"a rate of the cluster for {next(iter(target))}", quota(target, **OF_CLUSTER | said))
        for target, said in (
            ({"broker": {}}, {"maxConnections": 9}),
            ({"listener": "EXTERNAL"}, {}),
            ({"ip": "10.0.0.1"}, {}),
            ({"cidr": "10.0.0.0/8"}, {"limitIs": "Shared"}),
            (of_pods(), {"limitIs": "Shared", "mode": "Observe"}),
        )
    ),
    GoodManifest("a rate of each broker", quota(maxConnections=1, scope="Broker")),
    GoodManifest("an enforced limit of the broker", quota(maxConnections=1, mode="Enforce")),
    *(
        GoodManifest(f"a limit until {moment}", quota(maxConnections=1, expiresAt=moment))
        for moment in ("2030-01-31T18:00:00Z", "2030-01-31T18:00:00.123456789+05:30", "2028-02-29T00:00:00-00:00")
    ),
)

_NOT_OBSERVED: tuple[dict[str, Any], ...] = ({"broker": {}}, {"listener": "EXTERNAL"}, {"defaultIp": {}})
_RANGE = "target.cidr must be a range of IPv4 or IPv6 addresses"

BAD_QUOTAS = (
    *(
        BadManifest(f"{text} as a range", quota({"cidr": text}), "spec.target.cidr", _RANGE)
        for text in (
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/+8",
            "10.0.0/8",
            "::ffff:10.0.0.0/104",
            "fe80::%eth0/64",
            "2001:db8::/129",
            "/8",
        )
    ),
    *(
        BadManifest(f"the range {text}", quota({"cidr": text}), "spec.target.cidr", "must begin with the first address")
        for text in ("10.1.2.3/16", "2001:db8::1/64")
    ),
    BadManifest(
        "a range and an address", quota({"cidr": "10.0.0.0/8", "ip": "10.0.0.1"}), "spec.target", "target must have"
    ),
    BadManifest("a workload of no pods", quota({"workload": {}}), "spec.target.workload.podSelector"),
    BadManifest(
        "a label that is none",
        quota({"workload": {"podSelector": {"matchLabels": {"a b": "c"}}}}),
        "spec.target.workload.podSelector.matchLabels",
        "matchLabels must have keys and values in the form that Kubernetes accepts",
    ),
    *(
        BadManifest(
            f"pods by {operator} with values {values}",
            quota(_with({"key": "tier", "operator": operator} | ({} if values is None else {"values": values}))),
            "spec.target.workload.podSelector.matchExpressions[0].values",
            "operators In and NotIn need values",
        )
        for operator, values in (("In", None), ("NotIn", []), ("Exists", ["web"]), ("DoesNotExist", ["web"]))
    ),
    BadManifest(
        "an unknown operator of labels",
        quota(_with({"key": "tier", "operator": "Like", "values": ["web"]})),
        "spec.target.workload.podSelector.matchExpressions",
    ),
    BadManifest(
        "an address that shares its limit",
        quota({"ip": "10.0.0.1"}, maxConnections=1, limitIs="Shared"),
        "spec.limitIs",
        "limitIs is only for target.cidr and target.workload",
    ),
    BadManifest(
        "a limit that is neither", quota({"cidr": "10.0.0.0/8"}, maxConnections=1, limitIs="Each"), "spec.limitIs"
    ),
    *(
        BadManifest(
            f"mode Observe of {next(iter(target))}",
            quota(target, maxConnections=1, mode="Observe"),
            "spec.mode",
            "mode Observe is only for target.cidr, target.workload and target.ip",
        )
        for target in _NOT_OBSERVED
    ),
    BadManifest(
        "an adaptive rate beside a fixed one",
        quota(maxConnectionCreationRate=5, adaptive=adaptive()),
        "spec.adaptive",
        "set maxConnectionCreationRate or adaptive, not both",
    ),
    BadManifest(
        "an adaptive rate of an address",
        quota({"ip": "10.0.0.1"}, adaptive=adaptive()),
        "spec.adaptive",
        "adaptive is only for target.listener and target.broker",
    ),
    BadManifest(
        "a minimum above the maximum",
        quota(adaptive=adaptive(51, 50)),
        "spec.adaptive.minRate",
        "adaptive.minRate must be at most adaptive.maxRate",
    ),
    BadManifest("an adaptive rate without a minimum", quota(adaptive=adaptive(0)), "spec.adaptive.minRate"),
    *(
        BadManifest(
            f"an objective of {p99}",
            quota(adaptive=adaptive(p99=p99)),
            "spec.adaptive.objective.requestP99",
            "objective.requestP99 must be whole milliseconds from 5ms to 99999ms",
        )
        for p99 in ("4ms", "20 ms", "1s", "20s", "05ms", "100000ms", "1.5ms", "0.02 seconds")
    ),
    *(
        BadManifest(name, quota(target, **OF_CLUSTER | said), "spec.scope", says)
        for name, target, said, says in (
            (
                "a rate of the cluster for each address",
                {"defaultIp": {}},
                {},
                "scope Cluster is not for target.defaultIp",
            ),
            (
                "a rate of the cluster for each address of a range",
                {"cidr": "10.0.0.0/8"},
                {"limitIs": "PerAddress"},
                "scope Cluster with target.cidr or target.workload needs limitIs Shared",
            ),
            (
                "a rate of the cluster for each pod",
                of_pods(),
                {},
                "scope Cluster with target.cidr or target.workload needs limitIs Shared",
            ),
        )
    ),
    BadManifest(
        "a count of the cluster",
        quota(maxConnections=9, scope="Cluster"),
        "spec.scope",
        "scope Cluster needs maxConnectionCreationRate",
    ),
    BadManifest(
        "an adaptive rate of the cluster",
        quota({"listener": "EXTERNAL"}, adaptive=adaptive(), scope="Cluster"),
        "spec.scope",
        "set scope Cluster or adaptive, not both",
    ),
    BadManifest("an unknown scope", quota(maxConnectionCreationRate=1, scope="Region"), "spec.scope"),
    BadManifest("an unknown mode", quota(maxConnections=1, mode="Watch"), "spec.mode"),
    *(
        BadManifest(
            f"a limit until {moment}",
            quota(maxConnections=1, expiresAt=moment),
            "spec.expiresAt",
            "expiresAt must be a time with a time zone",
        )
        for moment in ("tomorrow", "2030-01-31", "2030-01-31T18:00:00", "2030-01-31 18:00:00Z", "1960-01-01T00:00:00Z")
    ),
    BadManifest("a limit until a day that is none", quota(maxConnections=1, expiresAt="2030-02-30T18:00:00Z"), "spec"),
)
