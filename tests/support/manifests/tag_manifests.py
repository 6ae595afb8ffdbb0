"""Manifests with tags of brokers, as in `bad_manifests`."""

from tests.support.manifests.bad_manifests import BadManifest, GoodManifest, cluster, with_brokers

GOOD_TAGS = (
    GoodManifest(
        "brokers with as many tags as there may be",
        with_brokers(
            tags={f"{number}/" + "n" * 125: "v" * 256 for number in range(10, 42)},
            tagsFromNodeLabels={f"{number}": f"{'a' * 253}/{'b' * 63}" for number in range(16)},
        ),
    ),
    GoodManifest("a tag with spaces in it", with_brokers(tags={"aws.zone": "a b, c=~!"})),
)

BAD_TAGS = (
    BadManifest(
        "config that sets a tag",
        cluster(config={"tag.team": "payments"}),
        "spec.config",
        "a tag (tag...): tag.team; use brokers.tags instead",
    ),
    BadManifest(
        "a tag whose name is no name", with_brokers(tags={"my team": "a"}), "spec.brokers", "names of tags must be"
    ),
    BadManifest(
        "a tag whose name is too long", with_brokers(tags={"t" * 129: "a"}), "spec.brokers", "names of tags must be"
    ),
    BadManifest(
        "a tag that brokers have by themselves",
        with_brokers(tags={"broker.version": "4.0.0"}),
        "spec.brokers",
        "names of tags must be",
    ),
    BadManifest(
        "a label as a tag that brokers have by themselves",
        with_brokers(tagsFromNodeLabels={"endpoints": "zone"}),
        "spec.brokers",
        "names of tags must be",
    ),
    *(
        BadManifest(
            f"the value {value!r} of a tag",
            with_brokers(tags={"team": value}),
            "spec.brokers.tags",
            "values of tags must",
        )
        for value in ("", " payments", "payments ", "zwölf", "two\nlines")
    ),
    BadManifest("a value that is too long", with_brokers(tags={"team": "a" * 257}), "spec.brokers.tags"),
    BadManifest("a value that is a number", with_brokers(tags={"team": 7}), "spec.brokers.tags"),
    BadManifest("too many tags", with_brokers(tags={f"t{number}": "a" for number in range(33)}), "spec.brokers.tags"),
    BadManifest(
        "a tag from what is no label",
        with_brokers(tagsFromNodeLabels={"zone": "my zone"}),
        "spec.brokers.tagsFromNodeLabels",
        "tagsFromNodeLabels must map tags to node labels",
    ),
    BadManifest(
        "a tag that is said twice",
        with_brokers(tags={"zone": "a"}, tagsFromNodeLabels={"zone": "zone"}),
        "spec.brokers.tagsFromNodeLabels",
        "without a tag that is in tags",
    ),
)
