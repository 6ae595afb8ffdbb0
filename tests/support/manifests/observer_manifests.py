"""Manifests about observers and the audit log, as in `bad_manifests`."""

from tests.support.manifests.bad_manifests import BadManifest, GoodManifest, cluster, observer, without

GOOD_OBSERVERS = (
    GoodManifest("an observer that says the least", observer()),
    GoodManifest(
        "an observer in a ConfigMap", observer(**{"class": "acme.Orders", "source": {"configMap": {"name": "mine"}}})
    ),
    GoodManifest("an observer in a wheel", observer(source={"wheel": {"file": "traffic-1.0.0-py3-none-any.whl"}})),
    GoodManifest(
        "a cluster with wheels",
        cluster(observers={"wheels": {"claimName": "wheels", "files": ["traffic-1.0.0-py3-none-any.whl"]}}),
    ),
    GoodManifest(
        "a cluster whose audit log goes to an object store",
        cluster(
            audit={
                "landing": {
                    "uri": "s3://audit/shop?region=eu-west-1&endpoint_override=minio%3A9000",
                    "secretName": "audit-s3",
                    "retentionDays": 90,
                    "quota": "100Gi",
                    "resources": {"limits": {"memory": "512Mi"}},
                }
            }
        ),
    ),
    GoodManifest("a cluster with secrets of observers", cluster(observers={"secretNames": ["audit", "my.keys"]})),
    GoodManifest("a cluster whose audit log goes to a volume", cluster(audit={"landing": {"claimName": "audit"}})),
    GoodManifest("a cluster that runs code of ConfigMaps", cluster(observers={"allowConfigMapCode": True})),
    GoodManifest("a built-in observer", observer("who", builtIn="audit-log")),
    GoodManifest(
        "an observer with everything",
        observer(
            "orders.eu",
            name="Orders_eu-1",
            config={"path": "/tmp/x", "audit.queue.full": "permit"},
            filter={
                "apiKeys": ["Produce", "1"],
                "listeners": ["EXTERNAL"],
                "principals": ["User:ANONYMOUS"],
                "topicPrefixes": ["orders.", "a"],
            },
            budgetMicroseconds=200,
            enabled=False,
        ),
    ),
)

BAD_OBSERVERS = (
    BadManifest(
        "an audit log with a filter",
        observer("who", builtIn="audit-log", filter={"apiKeys": ["Produce"]}),
        "spec.filter",
        "audit-log records all requests and has no filter",
    ),
    BadManifest(
        "secrets of no names",
        cluster(observers={"secretNames": ["a/b"]}),
        "spec.observers.secretNames",
        "each of secretNames must be the name of a Secret",
    ),
    BadManifest("an observer of no class", without(observer(), "spec", "class"), "spec", "set exactly one of class"),
    BadManifest(
        "an observer of two classes", observer(builtIn="audit-log", **{"class": "a.B"}), "spec", "exactly one of"
    ),
    BadManifest(
        "a wheel in a folder",
        cluster(observers={"wheels": {"claimName": "wheels", "files": ["a/b.whl"]}}),
        "spec.observers.wheels.files",
        "the file name of a wheel without a folder",
    ),
    BadManifest(
        "an audit log that goes nowhere",
        cluster(audit={"landing": {}}),
        "spec.audit.landing",
        "segments go to one place",
    ),
    BadManifest(
        "an audit log that goes to two places",
        cluster(audit={"landing": {"uri": "s3://audit", "claimName": "audit"}}),
        "spec.audit.landing",
        "set exactly one of uri",
    ),
    BadManifest(
        "credentials in the address of an audit log",
        cluster(audit={"landing": {"uri": "s3://me:secret@audit/shop"}}),
        "spec.audit.landing.uri",
        "without credentials: set secretName for them",
    ),
    BadManifest(
        "an audit log that deletes everything",
        cluster(audit={"landing": {"claimName": "audit", "quota": "500m"}}),
        "spec.audit.landing.quota",
        "quantity of at least 1Mi",
    ),
    BadManifest(
        "a secret of no name",
        cluster(audit={"landing": {"uri": "s3://audit", "image": "No Image"}}),
        "spec.audit.landing.image",
        "must be the name of a container image",
    ),
    BadManifest(
        "a landing with a secret of no name",
        cluster(audit={"landing": {"uri": "s3://audit", "secretName": "a/b"}}),
        "spec.audit.landing.secretName",
        "must be the name of a Secret",
    ),
    BadManifest(
        "an observer from two places",
        observer(**{"class": "acme.Orders", "source": {"configMap": {"name": "mine"}, "wheel": {"file": "a.whl"}}}),
        "spec.source",
        "set configMap or wheel, not both",
    ),
    BadManifest(
        "a package in a ConfigMap",
        observer(source={"configMap": {"name": "mine"}}),
        "spec",
        "a ConfigMap has one module",
    ),
    BadManifest("a class without a module", observer(**{"class": "Orders"}), "spec.class", "package.module.Class"),
    BadManifest("an unknown built-in observer", observer(builtIn="tape"), "spec.builtIn"),
    BadManifest("an observer with a dot in its name", observer(name="a.b"), "spec.name", "name must be 1 to 64"),
    BadManifest("an observer called class", observer(name="class"), "spec.name", "other than class"),
    BadManifest("an observer whose object has a dot", observer("a.b"), "", "spec.name is not set"),
    BadManifest(
        "a budget among the configuration",
        observer(config={"budget.us": "3"}),
        "spec.config",
        "config contains a key that has its own field in spec: budget.us",
    ),
    BadManifest(
        "a secret of an observer",
        observer(config={"api.token": "x"}),
        "spec.config",
        "config contains a key whose value is secret: api.token",
    ),
    BadManifest(
        "a key of an observer that is no name",
        observer(config={"a b": "x"}),
        "spec.config",
        "config contains a key that is not a valid name: a b",
    ),
    BadManifest("a budget of nothing", observer(budgetMicroseconds=0), "spec.budgetMicroseconds"),
    BadManifest(
        "a comma in a filter", observer(filter={"apiKeys": ["a,b"]}), "spec.filter", "must not contain a comma"
    ),
)
