"""The login module of a client."""

import pytest

from kafka_bytes.errors import FormatError
from kafka_bytes.sasl.login import login_options


def test_options_are_quoted_or_bare() -> None:
    text = ' org.x.ScramLoginModule required\n username="a b" password="p\\"q;\\\\" n=1;'
    assert login_options(text) == {"username": "a b", "password": 'p"q;\\', "n": "1"}


@pytest.mark.parametrize("text", ["", "hidden", "M optional a=hidden;", 'M required "hidden";', "M required a=hidden"])
def test_a_malformed_module_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(FormatError) as refused:
        login_options(text)
    assert "hidden" not in str(refused.value)
