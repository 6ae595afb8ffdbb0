"""All checks of `sluicegate doctor`, in the order of its output; docs/reference/doctor.md lists them. Pure."""

from sluicegate_operator.api.crd import KUBERNETES_MIN
from sluicegate_operator.cli.doctor.checks.results import Check, Where

VERSION = Check(
    "version",
    Where.ALWAYS,
    "the release of this command",
    "the package is not installed, so that its release is unknown",
    "never",
    "install the package: pip install sluicegate",
)
PYTHON = Check(
    "python",
    Where.ALWAYS,
    "the version of Python",
    "never",
    "Python is older than the release requires",
    "install a newer Python, and the package into it",
)
EXTRAS = Check(
    "extras",
    Where.ALWAYS,
    "the extras of the package that are installed, and the commands that need the others",
    "on this machine, packages of the extra `broker` are missing, so that `sluicegate up` starts no broker",
    "never",
    "install the extra: pip install 'sluicegate[broker]'",
)
OPEN_FILES = Check(
    "open files",
    Where.ALWAYS,
    "the hard limit of open files of this machine (RLIMIT_NOFILE), which a broker of `sluicegate up` uses in full",
    "the limit allows a broker fewer than 1,000 replicas",
    "the limit allows a broker fewer than 100 replicas",
    "raise the hard limit, for example with `ulimit -Hn 65536` as root, LimitNOFILE= of a systemd unit, or --ulimit of"
    " a container",
)
DATA_FOLDER = Check(
    "data folder",
    Where.MACHINE,
    "the folder of `sluicegate up` can be written",
    "never",
    "this user may not write into the folder, or it is not a folder",
    "change the owner of the folder, or name another one with --data-dir",
)
FREE_SPACE = Check(
    "free space",
    Where.CLUSTERS,
    "free space on the disk of the data folder; in Kubernetes on the nodes' volumes, as their kubelets report it",
    "less than 10 % is free",
    "less than 5 % or less than 1 GiB is free",
    "lower retention.bytes or retention.ms of large topics, or add space: storage.size of a BrokerCluster may grow",
)
API_SERVER = Check(
    "API server",
    Where.KUBERNETES,
    "the API server answers, and the CRDs work with its version",
    "never",
    f"no answer, or a version of Kubernetes before {KUBERNETES_MIN}",
    "check the kubeconfig and the context with `kubectl version`",
)
CLOCK = Check(
    "clock",
    Where.KUBERNETES,
    "the clock of this machine beside the API server's",
    "they differ by more than 2 s",
    "they differ by more than 60 s, so that ages that commands print are wrong, and certificates may seem invalid",
    "synchronize both clocks by NTP, for example with chrony",
)
CRDS = Check(
    "CRDs",
    Where.KUBERNETES,
    "each CustomResourceDefinition exists, is established, and has the version and the schema of this release",
    "the schema is another one, and has every field of this release",
    "a CRD is missing, not established, does not serve this version, or lacks fields of this release",
    "apply the CRDs of this release: kubectl apply --server-side -f crds, or upgrade the chart (docs/upgrade.md)",
)
USER_RIGHTS = Check(
    "your rights",
    Where.KUBERNETES,
    "the rights of this user that commands of `sluicegate` need",
    "a right is missing, so that a command shows less",
    "never",
    "ask an administrator for a RoleBinding to the ClusterRole edit, which has the kinds of sluicegate.dev and"
    " pods/proxy",
)
OPERATOR = Check(
    "operator",
    Where.KUBERNETES,
    "an operator runs for this namespace, renews its Lease, and has the release of this command",
    "its release is another one, or some of its replicas are not ready",
    "no operator runs, or none watches this namespace",
    "kubectl -n sluicegate-system get pods,lease; the logs of the operator's pod have the reason",
)
OPERATOR_RIGHTS = Check(
    "operator's rights",
    Where.KUBERNETES,
    "the rights of the operator's service account",
    "never",
    "the account lacks a right that the operator needs",
    "upgrade the chart with rbac.create=true, or apply deploy/rbac.yaml of this release",
)
UP = Check(
    "sluicegate up",
    Where.MACHINE,
    "a `sluicegate up` runs in the data folder",
    "never",
    "its state cannot be read",
    "stop `sluicegate up`, and start it again",
)
NODES = Check(
    "nodes",
    Where.CLUSTERS,
    "each broker and controller runs and is ready",
    "never",
    "a node is not ready; the sentence has the reason",
    "read the node's log: node-ID/broker.log in the data folder, or `kubectl logs POD`",
)
CONTROLLER = Check(
    "controller",
    Where.CLUSTERS,
    "an active controller returns its view of the brokers",
    "never",
    "no controller does",
    "check the controllers' logs, and the network to their HTTP port 9404",
)
BROKERS = Check(
    "brokers",
    Where.CLUSTERS,
    "each registered broker is Online, and its replicas are in sync",
    "replicas are not in sync, or a broker is stopping",
    "a broker is Fenced, Offline or Unknown",
    "check the broker's log; replicas catch up when the broker runs and reaches the others",
)
RELEASES = Check(
    "releases",
    Where.CLUSTERS,
    "the brokers of a cluster have one release, that of this command",
    "brokers have several releases, or another one than this command",
    "never",
    "wait for a roll that is in progress (condition RollBlocked, docs/upgrade.md), or use the command of that release",
)
NETWORK_POLICIES = Check(
    "network policies",
    Where.KUBERNETES,
    "the NetworkPolicies that select brokers and controllers let the nodes, the operator and clients through",
    "never",
    "no rule allows a connection that is needed, so that a network which enforces policies blocks it",
    "leave spec.networkPolicies of the BrokerCluster at true, or add a rule for the port to one of the policies",
)
ADDRESSES = Check(
    "addresses",
    Where.CLUSTERS,
    "the addresses of listeners resolve, and accept a TCP connection from here within 2 s",
    "never",
    "an address does not resolve or does not accept a connection",
    "check the Service, the load balancer, DNS and firewalls between this machine and the address"
    " (docs/expose-listeners.md)",
)
VOLUMES = Check(
    "volumes",
    Where.KUBERNETES,
    "volume claims are bound, and their StorageClasses exist and allow expansion",
    "a StorageClass does not allow volumes to grow, or does not exist any more",
    "a claim is not bound",
    "kubectl describe pvc NAME; correct storage.className, or create the StorageClass",
)
OBJECTS = Check(
    "objects",
    Where.CLUSTERS,
    "each object is Ready",
    "an object is not Ready, and the operator works on it",
    "an object is not Ready, and a user must act",
    "the message names the cause; docs/troubleshooting.md has the reasons",
)

CHECKS = (
    VERSION,
    PYTHON,
    EXTRAS,
    OPEN_FILES,
    DATA_FOLDER,
    UP,
    API_SERVER,
    CLOCK,
    CRDS,
    USER_RIGHTS,
    OPERATOR,
    OPERATOR_RIGHTS,
    NODES,
    CONTROLLER,
    BROKERS,
    RELEASES,
    NETWORK_POLICIES,
    ADDRESSES,
    VOLUMES,
    FREE_SPACE,
    OBJECTS,
)
"""The checks in the order of the output."""
