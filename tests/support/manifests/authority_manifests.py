"""BrokerClusters with an authority of their own that are wrong, and changes that are refused."""

from tests.support.manifests.bad_manifests import BadChange, BadManifest, cluster

BAD_AUTHORITIES = (
    BadManifest(
        "an authority of the user without its Secret",
        cluster(clusterCa={"generateCertificateAuthority": False}),
        "spec.clusterCa",
        "secretName is needed with generateCertificateAuthority false, and only then",
    ),
    BadManifest(
        "a Secret for an authority that the operator makes",
        cluster(clusterCa={"secretName": "my-ca"}),
        "spec.clusterCa",
        "secretName is needed with generateCertificateAuthority false, and only then",
    ),
    BadManifest(
        "an authority in a Secret with a bad name",
        cluster(clusterCa={"generateCertificateAuthority": False, "secretName": "My_CA"}),
        "spec.clusterCa",
        "secretName must be the name of a Secret",
    ),
    BadManifest(
        "certificates that are renewed before they are made",
        cluster(clusterCa={"validityDays": 30, "renewalDays": 30}),
        "spec.clusterCa",
        "renewalDays must be less than validityDays",
    ),
)

AUTHORITY_CHANGES = (
    BadChange(
        "an authority is added to a running cluster",
        cluster(),
        cluster(clusterCa={}),
        "clusterCa cannot be added or removed",
    ),
    BadChange(
        "the authority of a running cluster is removed",
        cluster(clusterCa={}),
        cluster(),
        "clusterCa cannot be added or removed",
    ),
)
