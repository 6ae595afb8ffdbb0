"""Default images of pods: those of the operator's own version, or of its settings."""

from dataclasses import dataclass

from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.audit.audit_job import DEFAULT_IMAGE as PIPELINE_IMAGE
from sluicegate_operator.resources.nodes.statefulset import DEFAULT_IMAGE

LANDING_IMAGE = f"{DEFAULT_IMAGE}-landing"


@dataclass(frozen=True, slots=True)
class Images:
    """The default images of the operator.

    `nodes` is for brokers and controllers, `landing` for the container beside a broker that lands its audit log.
    `pull_secrets` are names of Secrets in the namespace of each object.
    """

    nodes: str = DEFAULT_IMAGE
    landing: str = LANDING_IMAGE
    pipeline: str = PIPELINE_IMAGE
    pull_secrets: tuple[str, ...] = ()

    def of_cluster(self, cluster: BrokerCluster) -> BrokerCluster:
        """Return the cluster with defaults for the images and secrets that it does not name.

        A cluster's own image must contain the lander, unless the cluster names an image for the lander as well.
        """
        spec = cluster.spec
        found: dict[str, object] = {
            "image": spec.image or self.nodes,
            "image_pull_secrets": spec.image_pull_secrets or self.pull_secrets or None,
        }
        if spec.audit is not None:
            landing = spec.audit.landing
            image = landing.image or spec.image or self.landing
            found["audit"] = spec.audit.model_copy(update={"landing": landing.model_copy(update={"image": image})})
        return cluster.model_copy(update={"spec": spec.model_copy(update=found)})

    def of_pipeline(self, pipeline: AuditPipeline) -> AuditPipeline:
        """Return the pipeline with defaults for fields that it does not set. SparkApplications must name an image."""
        spec = pipeline.spec
        found = {
            "image": spec.image or self.pipeline,
            "image_pull_secrets": spec.image_pull_secrets or self.pull_secrets or None,
        }
        return pipeline.model_copy(update={"spec": spec.model_copy(update=found)})
