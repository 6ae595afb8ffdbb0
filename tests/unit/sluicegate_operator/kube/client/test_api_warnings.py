"""The warnings of an API server's answer."""

import pytest

from sluicegate_operator.kube.http.api_server import _warning_text


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ('299 - "a warning"', "a warning"),
        (r'299 - "a \"quoted\" word and a \\"', 'a "quoted" word and a \\'),
        ('299 apiserver "a warning" "Sat, 28 Nov 2026 03:00:00 GMT"', "a warning"),
        ("299 - without quotes", ""),
        ("", ""),
    ],
)
def test_the_text_of_a_warning_header(header: str, text: str) -> None:
    assert _warning_text(header) == text
