"""Manifests of BrokerListeners, as in `bad_manifests`."""

from tests.support.manifests.bad_manifests import (
    BadChange,
    BadManifest,
    GoodManifest,
    Json,
    listener,
    named_listener,
    without,
)

_TLS: Json = {"tls": {"secretName": "shop-tls"}}


def authenticating(type_: str, **fields: object) -> Json:
    return listener(**_TLS, authentication={"type": type_, **fields})


_JWKS = "https://id.example.org/jwks"
GOOD_LISTENERS = (
    GoodManifest("a listener with TLS", listener(**_TLS)),
    GoodManifest(
        "a listener with TLS and everything",
        listener(tls={"secretName": "shop-tls", "clientCaSecretName": "clients", "clientAuth": "Requested"}),
    ),
    GoodManifest("a listener for client certificates", authenticating("tls")),
    GoodManifest("a listener with SCRAM without TLS", listener(authentication={"type": "scram-sha-512"})),
    GoodManifest(
        "a listener for tokens",
        authenticating("oauth", jwksEndpointUri=_JWKS, validIssuerUri="https://id.example.org", audiences=["kafka"]),
    ),
    GoodManifest("a listener for service accounts", authenticating("serviceAccount")),
    GoodManifest(
        "a listener of sessions that end", authenticating("scram-sha-512", maxSecondsWithoutReauthentication=3600)
    ),
    GoodManifest("a listener that says the least", listener()),
    GoodManifest("a listener behind a load balancer", listener(exposure="LoadBalancer", protocol="PLAINTEXT")),
    GoodManifest(
        "a listener on ports of nodes, with everything",
        listener(
            exposure="NodePort",
            advertisedHost="kafka.example.org",
            nodePorts={"bootstrap": 30090, "firstBroker": 30100},
            externalTrafficPolicy="Cluster",
            annotations={"example.org/dns": "kafka.example.org"},
            proxyProtocol={"trusted": ["10.0.0.0/8", "192.0.2.7/32", "10.1.2.3/8", "2001:db8::/32"]},
        ),
    ),
    GoodManifest("a listener with an IPv6 address", listener(exposure="NodePort", advertisedHost="2001:db8::7")),
    GoodManifest(
        "a listener behind load balancers of a class",
        listener(
            exposure="LoadBalancer",
            advertisedHost="broker-{broker}.kafka.example.org",
            loadBalancerClass="example.org/inner",
            loadBalancerSourceRanges=["203.0.113.0/24"],
        ),
    ),
)

BAD_LISTENERS = (
    BadManifest(
        "tokens without TLS",
        listener(authentication={"type": "serviceAccount"}),
        "spec.authentication",
        "everybody on the network could read its token",
    ),
    BadManifest(
        "client certificates that are not requested",
        listener(tls={"secretName": "a", "clientAuth": "None"}, authentication={"type": "tls"}),
        "spec.authentication",
        "authentication.type tls needs client certificates",
    ),
    BadManifest(
        "tokens of an unknown issuer",
        authenticating("oauth"),
        "spec.authentication.jwksEndpointUri",
        "type oauth needs jwksEndpointUri",
    ),
    BadManifest(
        "keys of tokens that anybody could forge",
        authenticating("oauth", jwksEndpointUri="http://id.example.org/jwks"),
        "spec.authentication.jwksEndpointUri",
        "must be an https:// address",
    ),
    BadManifest(
        "keys of tokens for passwords",
        authenticating("scram-sha-512", jwksEndpointUri=_JWKS),
        "spec.authentication.jwksEndpointUri",
        "jwksEndpointUri is only for type oauth",
    ),
    BadManifest(
        "audiences of passwords",
        authenticating("scram-sha-512", audiences=["a"]),
        "spec.authentication.audiences",
        "audiences is only for type oauth and serviceAccount",
    ),
    BadManifest(
        "sessions of certificates that end",
        authenticating("tls", maxSecondsWithoutReauthentication=60),
        "spec.authentication.maxSecondsWithoutReauthentication",
        "is only for type scram-sha-512, oauth and serviceAccount",
    ),
    BadManifest(
        "a session that ends at once",
        authenticating("oauth", jwksEndpointUri=_JWKS, maxSecondsWithoutReauthentication=0),
        "spec.authentication.maxSecondsWithoutReauthentication",
    ),
    BadManifest("a listener without a cluster", without(listener(), "spec", "clusterRef"), "spec.clusterRef"),
    BadManifest(
        "a listener in lower case", named_listener("external"), "spec.name", "name must be at most 63 upper-case"
    ),
    BadManifest("a listener of the operator", named_listener("INTERNAL"), "spec.name", "are reserved for the operator"),
    BadManifest(
        "a listener with a line break", named_listener("EXTERNAL\n"), "spec.name", "name must be at most 63 upper-case"
    ),
    BadManifest("a privileged port", listener(port=80), "spec.port"),
    BadManifest("a port that is none", listener(port=70000), "spec.port"),
    BadManifest("a port of the operator", listener(port=9404), "spec.port", "are reserved for the operator"),
    BadManifest("a protocol that is not served", listener(protocol="SASL_SSL"), "spec.protocol"),
    BadManifest("an unknown exposure", listener(exposure="Ingress"), "spec.exposure"),
    BadManifest(
        "an advertised address",
        listener(advertisedHost="http://{broker}"),
        "spec.advertisedHost",
        "must be a host name",
    ),
    BadManifest(
        "an advertised port",
        listener(exposure="NodePort", advertisedHost="kafka.example.org:9094"),
        "spec.advertisedHost",
        "without a port",
    ),
    BadManifest(
        "one host for all brokers",
        listener(exposure="LoadBalancer", advertisedHost="kafka.example.org"),
        "spec.advertisedHost",
        "must contain {broker}",
    ),
    BadManifest(
        "ports of nodes without exposure",
        listener(nodePorts={"bootstrap": 30000}),
        "spec.nodePorts",
        "exposure NodePort",
    ),
    BadManifest(
        "no ports of nodes", listener(exposure="NodePort", nodePorts={}), "spec.nodePorts", "must have bootstrap"
    ),
    BadManifest(
        "a traffic policy without exposure",
        listener(externalTrafficPolicy="Local"),
        "spec.externalTrafficPolicy",
        "for exposure NodePort and LoadBalancer",
    ),
    BadManifest(
        "a class of load balancers without one",
        listener(exposure="NodePort", loadBalancerClass="a"),
        "spec.loadBalancerClass",
        "for exposure LoadBalancer",
    ),
    BadManifest(
        "sources of a load balancer without one",
        listener(loadBalancerSourceRanges=["203.0.113.0/24"]),
        "spec.loadBalancerSourceRanges",
        "for exposure LoadBalancer",
    ),
    BadManifest(
        "sources that are no range",
        listener(exposure="LoadBalancer", loadBalancerSourceRanges=["203.0.113.0"]),
        "spec.loadBalancerSourceRanges",
        "must be CIDR ranges",
    ),
    *(
        BadManifest(
            f"trust in {trusted}",
            listener(proxyProtocol={"trusted": [trusted]}),
            "spec.proxyProtocol",
            "must be CIDR ranges",
        )
        for trusted in (
            "10.0.0.1",
            "10.0.0.0/33",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/08",
            "::ffff:10.0.0.0/104",
            "::ffff:a00:0/104",
            "example",
        )
    ),
    BadManifest("trust in nobody", listener(proxyProtocol={"trusted": []}), "spec.proxyProtocol"),
    BadManifest(
        "an exposed listener with a long name",
        listener("a" * 61, exposure="NodePort"),
        "",
        "must have at most 60 characters",
    ),
    BadManifest(
        "a listener with the name of an own Service",
        listener("shop-brokers"),
        "",
        "must not end with -brokers, -controllers or",
    ),
    BadManifest(
        "a listener with the name of a controller's Service",
        listener("shop-controllers-0"),
        "",
        "must not end with -brokers, -controllers or",
    ),
    BadManifest(
        "a listener with the name of the API server's Service",
        listener("kubernetes"),
        "",
        "the API server's Service",
    ),
    BadManifest(
        "a listener whose name is no name of a Service",
        listener("shop.external"),
        "",
        "the name of a BrokerListener must be",
    ),
)

LISTENER_CHANGES = (
    BadChange("a listener gets TLS", listener(), listener(**_TLS), "tls and the authentication of users cannot"),
    BadChange(
        "a listener loses its users",
        listener(authentication={"type": "scram-sha-512"}),
        listener(),
        "tls and the authentication of users cannot",
    ),
)
