"""The authority of a bundled cluster's own certificates: spec.clusterCa, and what its status shows."""

import re
from typing import Annotated, ClassVar

from pydantic import Field

from sluicegate_operator.api.schema.metadata import GROUP, Status
from sluicegate_operator.api.schema.names import OBJECT_NAME_PATTERN
from sluicegate_operator.api.schema.rules import Model, Rule, TransitionRule

FORCE_RENEW = f"{GROUP}/force-renew"
"""Annotation of a BrokerCluster: each new value renews its certificates."""
VALIDITY_DAYS, RENEWAL_DAYS = 365, 30


CLUSTER_CA_STAYS = TransitionRule(
    cel="has(self.clusterCa) == has(oldSelf.clusterCa)",
    message="clusterCa cannot be added or removed, because nodes with TLS and nodes without it cannot reach each other;"
    " create a new BrokerCluster, and move the topics of this one to it (docs/scaling.md)",
    allows=lambda old, new: (new.cluster_ca is None) == (old.cluster_ca is None),
    field="clusterCa",
)
"""A rule of the spec of a BrokerCluster."""


class ClusterCa(Model):
    rules: ClassVar = (
        Rule(
            cel=f"!has(self.secretName) || self.secretName.matches('{OBJECT_NAME_PATTERN}')",
            message="secretName must be the name of a Secret: lower-case letters, digits, '-' and '.'",
            allows=lambda ca: ca.secret_name is None or re.fullmatch(OBJECT_NAME_PATTERN, ca.secret_name) is not None,
            field="secretName",
        ),
        Rule(
            cel="self.generateCertificateAuthority != has(self.secretName)",
            message="secretName is needed with generateCertificateAuthority false, and only then: name the Secret of"
            " your authority, or let the operator make one",
            allows=lambda ca: ca.generate_certificate_authority != (ca.secret_name is not None),
            field="secretName",
        ),
        Rule(
            cel="self.renewalDays < self.validityDays",
            message="renewalDays must be less than validityDays: it is the time before the end at which certificates"
            " are renewed",
            allows=lambda ca: ca.renewal_days < ca.validity_days,
            field="renewalDays",
        ),
    )

    generate_certificate_authority: bool = True
    """Whether the operator makes the authority, and renews it. Its key is in Secret NAME-cluster-ca, NAME being the
    cluster. false takes the authority in secretName."""
    secret_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Secret in the same namespace with your own authority: its certificate in tls.crt and its key in tls.key, as
    cert-manager writes them for a Certificate with isCA true. The operator issues the certificates of nodes with it. A
    renewed authority is taken over without a restart."""
    validity_days: int = Field(default=VALIDITY_DAYS, ge=2, le=3650)
    """Days for which an authority and the certificates that it issues are valid. Certificates never end after their
    authority."""
    renewal_days: int = Field(default=RENEWAL_DAYS, ge=1, le=3649)
    """Days before the end at which an authority and certificates are renewed."""


class ClusterCaStatus(Model):
    model_config = Status.model_config

    authority_ends: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the authority ends that issues certificates now."""
    certificate_ends: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the certificate of the nodes ends, as they have it in their files."""
