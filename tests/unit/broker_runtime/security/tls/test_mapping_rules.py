"""Names of clients from the subjects of their certificates (KIP-371)."""

import pytest

from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.mapping_rules import MappingRules, NoRuleError

RULES = ", ".join(
    [
        "RULE:^CN=(.*?),OU=Apps.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Anna,OU=Apps,O=Firm,C=DE", "anna"),
        ("CN=Anna,OU=Ops,O=Firm,L=Ulm,ST=BW,C=DE", "anna@ops"),
        ("cn=anna,ou=ops,dc=firm,dc=example", "ANNA@OPS"),
        ("cN=anna,OU=Lab,O=Some Firm", "ANNA"),
        ("OU=Lab,O=Some Firm,C=DE", "OU=Lab,O=Some Firm,C=DE"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_applies(subject: str, name: str) -> None:
    assert MappingRules(RULES).name(subject) == name


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Berg\, Anna,OU=Ops,DC=firm,DC=example", r"Berg\, Anna"),
        (" , RULE:^CN=(.*?)$/$1/ ,, DEFAULT , ", "CN=a", "a"),
        ("RULE:^CN=(.*?)$/$13/", "CN=a", "a3"),
        ("RULE:^CN=(.*?)$/$2$0/", "CN=a", "$2$0"),
        ("RULE:^CN=.*$/all $1/", "CN=a", "all $1"),
        ("RULE:^CN=(a|(b))$/<$2>/", "CN=a", "<>"),
        (r"RULE:^CN=(.*?)\/(.*?)$/$1\/$2/", "CN=a/b", "a/b"),
        (r"RULE:^CN=(.*?)$/\$1 $1/", "CN=a", "$1 a"),
    ],
)
def test_rules(rules: str, subject: str, name: str) -> None:
    assert MappingRules(rules).name(subject) == name


@pytest.mark.parametrize("rules", ["", " , ", "RULE:^CN=(b)$/$1/", "RULE:CN=a/x/"])
def test_a_subject_that_no_rule_matches_has_no_name(rules: str) -> None:
    with pytest.raises(NoRuleError, match=r"no rule of ssl.principal.mapping.rules matches the subject CN=ab"):
        MappingRules(rules).name("CN=ab")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "rule:^CN=(.*?)$/$1/",
        "RULE:^CN=(.*?)$/$1",
        "RULE:^CN=(.*?)$/$1/L/U",
        "RULE:^CN=(.*?)$/L",
        "RULE:^CN=(.*?)$/$1/LU",
        "RULE:^CN=(.*?$/$1/",
        "DEFAULT RULE:a/b/",
    ],
)
def test_malformed_rules_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl.principal.mapping.rules: "):
        MappingRules(rules)
