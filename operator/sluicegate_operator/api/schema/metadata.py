"""Parts that all kinds share: the fields of ObjectMeta that the operator reads, conditions, the base of every status.

`planning.status.conditions` defines what conditions mean, and when they are true.
"""

from datetime import datetime
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from sluicegate_operator.api.schema.rules import Model

GROUP = "sluicegate.dev"
VERSION = "v1alpha1"
API_VERSION: Final = "sluicegate.dev/v1alpha1"
INT_MAX = 2**31 - 1
DEFAULT_NAMESPACE = "default"
"""Namespace of an object that names none, unless a caller sets another one."""

_LENIENT = ConfigDict(
    alias_generator=to_camel,
    populate_by_name=True,
    extra="ignore",
    frozen=True,
    strict=True,
    use_attribute_docstrings=True,
)


class ObjectMeta(Model):
    model_config = _LENIENT

    name: str
    namespace: str = DEFAULT_NAMESPACE
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()


class ClusterRef(Model):
    name: str = Field(min_length=1, max_length=40)
    """Name of a BrokerCluster in the same namespace."""


class Condition(Model):
    """The shape of metav1.Condition."""

    model_config = _LENIENT

    type: str = Field(max_length=316)
    """The type of the condition, for example Ready."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    reason: str = Field(max_length=1024)
    """The reason, as one word for programs."""
    message: str = Field(default="", max_length=32768)
    """A sentence for users: the reason, and what to do."""
    last_transition_time: datetime
    """Time when the status last changed."""
    observed_generation: int = 0
    """The metadata.generation that this condition describes."""


class Status(Model):
    model_config = _LENIENT

    observed_generation: int = -1
    """The metadata.generation that this status describes; -1 before the operator has seen the object."""
    conditions: tuple[Condition, ...] = Field(default=(), max_length=32)
    """Ready, Reconciling and Stalled as in kstatus, and conditions of this kind."""

    def manifest(self) -> dict[str, Any]:
        """Return the content of /status: camelCase, times as text, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


class PrinterColumn(Model):
    """A column of `kubectl get`. A column with a priority above 0 is only shown by `-o wide`."""

    name: str
    json_path: str
    type: Literal["string", "integer", "date"] = "string"
    priority: int = 0


class ScaleSubresource(Model):
    """JSON paths that `kubectl scale` and autoscalers of a kind use."""

    spec_replicas: str
    """The desired number."""
    status_replicas: str
    """The current number."""
    selector: str
    """Label selector of the pods, as text."""


Identity = tuple[str, str, str]
"""The identity of an object: kind, namespace and name."""


class Resource(Model):
    """The base of all custom resources.

    The class variables are the parts of the kind's CRD that are not in the schema.
    """

    plural: ClassVar[str]
    short_name: ClassVar[str]
    columns: ClassVar[tuple[PrinterColumn, ...]]
    scale: ClassVar[ScaleSubresource | None] = None

    api_version: Literal["sluicegate.dev/v1alpha1"] = API_VERSION
    kind: str
    metadata: ObjectMeta
    spec: Any
    status: Any

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def identity(self) -> Identity:
        return self.kind, self.metadata.namespace, self.metadata.name

    @property
    def spec_version(self) -> tuple[str, int]:
        """Return the uid of the object and the generation of its spec."""
        return self.metadata.uid, self.metadata.generation

    @property
    def cluster_name(self) -> str:
        """Return the name of the object's BrokerCluster."""
        return str(self.spec.cluster_ref.name)


READY_COLUMN = PrinterColumn(name="Ready", json_path='.status.conditions[?(@.type=="Ready")].status')
REASON_COLUMN = PrinterColumn(name="Reason", json_path='.status.conditions[?(@.type=="Ready")].reason')
MESSAGE_COLUMN = PrinterColumn(name="Message", json_path='.status.conditions[?(@.type=="Ready")].message', priority=1)
AGE_COLUMN = PrinterColumn(name="Age", json_path=".metadata.creationTimestamp", type="date")
CONDITION_COLUMNS = (READY_COLUMN, REASON_COLUMN, AGE_COLUMN, MESSAGE_COLUMN)
"""The last columns of kinds that users write."""
CLUSTER_COLUMN = PrinterColumn(name="Cluster", json_path=".spec.clusterRef.name")
