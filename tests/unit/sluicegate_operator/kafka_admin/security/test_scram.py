"""New credentials of SCRAM."""

import base64

from sluicegate_operator.kafka_admin.security.scram import ScramMechanism, new_credential


def test_a_credential_is_the_salted_password_and_shows_nothing() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = new_credential(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)
    assert credential.salted_password == base64.b64decode("xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0=")
    assert "salt" not in repr(credential).replace("ScramCredential", "")
