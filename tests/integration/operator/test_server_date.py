"""The Date header of an API server, by which `sluicegate doctor` compares clocks."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from sluicegate_operator.kube.http.errors import KubeError
from tests.integration.operator.test_kube_client_busy import api_server, client_of


def test_an_answer_comes_with_the_date_of_its_server(tmp_path: Path) -> None:
    with api_server(refusals=0) as (address, _):
        client = client_of(address, tmp_path)
        try:
            document, date = asyncio.run(client.server.dated("/version"))
        finally:
            client.close()
    assert document == {"items": []}
    assert abs(parsedate_to_datetime(date) - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_refusal_has_no_date(tmp_path: Path) -> None:
    with api_server(refusals=1) as (address, _):
        client = client_of(address, tmp_path)
        try:
            with pytest.raises(KubeError, match="429"):
                asyncio.run(client.server.dated("/version"))
        finally:
            client.close()
