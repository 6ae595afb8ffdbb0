"""The text of sasl.jaas.config is read as JAAS writes it, and errors quote no secret."""

import pytest

from kafka_bytes.errors import FormatError
from kafka_bytes.sasl.login import login_module

KEY = "listener.name.x.plain.sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_module_with_options() -> None:
    text = f'{PLAIN} required username="admin" password="a b;\\"c\\\\" user_admin=\'x\' plain=word-1.2/3;'
    module = login_module(text, KEY)
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": "admin", "password": 'a b;"c\\', "user_admin": "x", "plain": "word-1.2/3"}
    assert "admin" not in repr(module)


def test_comments_and_lines() -> None:
    assert login_module(f"{PLAIN} REQUIRED // one\n /* two\n */ a = 1\n # three\n;\n", KEY).options == {"a": "1"}
    assert login_module("M optional;", KEY).options == {}


def test_quotation_marks_and_backslashes_are_escaped() -> None:
    text = ' org.x.ScramLoginModule required\n username="a b" password="p\\"q;\\\\" n=1;'
    assert login_module(text).options == {"username": "a b", "password": 'p"q;\\', "n": "1"}


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
        ('M required "hunter2";', "option that is not of the form"),
        ("M required a=hunter2", "semicolon"),
    ],
)
def test_errors_name_the_key_and_no_value(text: str, expected: str) -> None:
    with pytest.raises(FormatError, match="^" + KEY.replace(".", r"\.")) as refusal:
        login_module(text, KEY)
    assert expected in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
