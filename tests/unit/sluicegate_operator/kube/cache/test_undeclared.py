"""An API server's warnings about fields that its CRD lacks."""

from sluicegate_operator.kube.cache.undeclared import KNOWN_FOR_S, UndeclaredFields, undeclared_fields, without_fields

REFUSAL = (
    "PATCH https://k/apis/sluicegate.dev/v1alpha1/namespaces/a/connectionquotas/one/status: 500 failed to create typed"
    " patch object (a/one; sluicegate.dev/v1alpha1, Kind=ConnectionQuota): errors:\n  .status.applySeconds: field not"
    " declared in schema\n  .status.effective.mode: field not declared in schema\n"
)


def test_undeclared_fields_are_omitted_and_the_others_are_written() -> None:
    fields = undeclared_fields(REFUSAL)
    assert fields == ("applySeconds", "effective.mode")
    status = {"brokers": "3/3", "applySeconds": 0.2, "effective": {"mode": "Enforce", "maxConnections": 5}}
    assert without_fields(status, fields) == {"brokers": "3/3", "effective": {"maxConnections": 5}}
    assert "applySeconds" in status, "what it was given stays as it is"


def test_other_refusals_name_nothing() -> None:
    assert undeclared_fields("PATCH https://k: 409 conflict with .status.brokers") == ()
    assert undeclared_fields(".status.conditions[0].since: field not declared in schema") == ()


def test_a_field_that_is_not_there_is_no_fault() -> None:
    assert without_fields({"brokers": "3/3"}, ("applySeconds", "effective.mode")) == {"brokers": "3/3"}


def test_fields_missing_from_a_crd_are_remembered_until_it_may_have_been_updated() -> None:
    at_s = 0.0
    fields = UndeclaredFields(lambda: at_s)
    assert fields.of("topics") == ()
    assert [fields.note("topics", ("a", "b.c")) for _ in range(2)] == [True, False]
    at_s = KNOWN_FOR_S / 2
    fields.note("topics", ("a",))
    assert (fields.of("topics"), fields.of("connectionquotas")) == (("a", "b.c"), ())
    at_s = KNOWN_FOR_S
    assert fields.of("topics") == ("a",)
