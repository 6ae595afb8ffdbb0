"""examples/README.md word by word, on any number of nodes: a cluster, additions while it runs, external access."""

from collections.abc import Iterator

import pytest

from e2e.nodes.site.figures import Figures
from e2e.nodes.site.followed_page import FollowedPage, followed_page
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.shop import NodeShop

NODE_PORT = "30090"


@pytest.fixture(scope="module")
def page(standing_shop: NodeShop, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FollowedPage]:
    """The page in a separate namespace, with the quickstart, beside the shop of the other scenarios."""
    with followed_page(kube, "examples", tmp_path_factory.mktemp("examples")) as page:
        page.follow("quickstart")
        yield page


def test_the_quickstart_shows_where_its_clients_connect(page: FollowedPage, figures: Figures) -> None:
    figures.note("the commands of examples/README.md, quickstart, s", page.took_s["quickstart"])
    [cluster] = page.namespace.items("bc")
    assert cluster["status"]["bootstrapServers"] in page.said["quickstart"]
    assert {quota["status"]["strategy"] for quota in page.namespace.items("cq")} == {"token-bucket"}


@pytest.mark.parametrize("example", ["observers", "quotas"])
def test_manifests_applied_while_brokers_run_restart_none(page: FollowedPage, example: str) -> None:
    before = page.brokers()
    page.follow(example)
    assert page.brokers() == before


def test_ports_of_nodes_are_printed_as_a_client_takes_them(page: FollowedPage) -> None:
    page.follow("exposed")
    bootstrap = page.said["exposed"].strip().splitlines()[-1]
    assert {address.rpartition(":")[2] for address in bootstrap.split(",")} == {NODE_PORT}
