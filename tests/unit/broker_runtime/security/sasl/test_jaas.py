"""The text of sasl.jaas.config is read as JAAS writes it, and errors quote no secret."""

import pytest

from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.jaas import parse_jaas

KEY = "listener.name.x.plain.sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_module_with_options() -> None:
    text = f'{PLAIN} required username="admin" password="a b;\\"c\\\\" user_admin=\'x\' plain=word-1.2/3;'
    module = parse_jaas(text, KEY)
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": "admin", "password": 'a b;"c\\', "user_admin": "x", "plain": "word-1.2/3"}
    assert "admin" not in repr(module)


def test_comments_and_lines() -> None:
    assert parse_jaas(f"{PLAIN} REQUIRED // one\n /* two\n */ a = 1\n # three\n;\n", KEY).options == {"a": "1"}
    assert parse_jaas("M optional;", KEY).options == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not `LoginModuleClass required"),
        ("hunter2", "is not `LoginModuleClass required"),
        ("M hunter2;", "no control flag"),
        ('M required password="hunter2"', "semicolon"),
        ('M required password="hunter2;', "cannot be read at character"),
        ('M required password="hunter2"; N required;', "more than one login module"),
        ('M required password "hunter2";', "option that is not of the form"),
        ('M required password=="hunter2";', "option that is not of the form"),
        ('M required "password"="hunter2";', "option that is not of the form"),
        ('M required a="hunter2" a="hunter2";', "the option a twice"),
        ("M required a=hunter2§;", "cannot be read at character"),
    ],
)
def test_errors_name_the_key_and_no_value(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match="^" + KEY.replace(".", r"\.")) as refusal:
        parse_jaas(text, KEY)
    assert expected in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
