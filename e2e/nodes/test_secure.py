"""examples/secure on nodes, word by word: TLS, passwords, tokens of pods, and ACLs."""

import time
from collections.abc import Iterator

import pytest

from e2e.disclosure.outputs import Outputs
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.secure_example import ACCOUNT, HOST, NAMESPACE, PORT, SecureExample, secure_example
from e2e.nodes.site.shop import NodeShop

REFUSED_S = 3.0
ADVERTISED = f"shop-brokers-0.shop-brokers.{NAMESPACE}.svc"
SECRETS_MIN = 6
"""A password, keys of certificates and the operator's copies of them, and tokens of pods."""


@pytest.fixture(scope="module")
def example(
    standing_shop: NodeShop, kube: Kube, outputs: Outputs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureExample]:
    """The example as its page applies it, beside the quickstart."""
    with secure_example(kube, tmp_path_factory.mktemp("secure"), outputs) as example:
        yield example


def test_the_page_makes_brokers_and_clients(example: SecureExample, figures: Figures) -> None:
    began_s = time.monotonic()
    said = example.follow("kubectl create namespace")
    figures.note("the commands of examples/secure until all is ready, s", time.monotonic() - began_s)
    assert f"{HOST}:{PORT}" in said
    assert ACCOUNT in said
    label = ("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    assert example.namespace.kube.kubectl_warnings(*label) == []


def test_the_clients_of_the_page_write_and_read_what_they_may(example: SecureExample) -> None:
    said = example.follow("kubectl exec billing")
    assert "billing has written and read order" in said
    assert "reporting has written and read order" in said
    assert "TOPIC_AUTHORIZATION_FAILED" in example.refused()


def test_a_token_for_others_is_refused(example: SecureExample) -> None:
    example.client("foreign", "orders", REFUSED_S, {}, audience="other")
    refused = example.report("foreign")
    assert refused["acknowledged"] == 0
    assert any("invalid_token" in error for error in refused["errors"]), refused


def test_no_output_shows_a_password_a_key_or_a_token(example: SecureExample, outputs: Outputs) -> None:
    example.hide_tokens()
    outputs.add("DescribeConfigs of examples/secure", example.described())
    example.run(f"sluicegate plan -n {NAMESPACE} -f examples/secure -f examples/secure/kubernetes/tokens.yaml")
    assert outputs.secrets >= SECRETS_MIN
    # Names, which brokers do show, are found in their logs, in statuses and in the answers of brokers.
    control = Outputs(outputs.folder)
    control.hide({ADVERTISED: "the broker's name", "User:billing": "the user's name"})
    shown = {one.rpartition("/")[2].partition(":")[0] for one in control.disclosures()}
    assert {"log_secure_shop-brokers-0_broker", "DescribeConfigs_of_examples_secure"} <= shown, shown
    assert any("brokerlisteners" in name for name in shown), shown
    outputs.check()
