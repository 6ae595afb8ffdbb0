"""The authorizer of a node, as its configuration says. Without one, its modules are not imported (decision 45)."""

from collections.abc import Callable
from importlib import import_module

from broker_runtime.apis.request.access import Authorization
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import Gate
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerSettings
from broker_runtime.config.keys.authorizer import principals
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.reply import Reply

_GATE = "broker_runtime.apis.request.authorization.access_gate"
"""Imported with the first authorizer."""


def authorization(settings: BrokerSettings, clock: Clock, image: Callable[[], MetadataImage]) -> Authorization | None:
    """Return the node's authorizer, which reads the ACLs of `image`; None if none is configured."""
    config = settings.config
    if not config.authorizer_class_name:
        return None
    authorizer = import_module("broker_runtime.security.acls.authorizer").StandardAuthorizer(
        lambda: image().acls.index,
        principals(config.super_users),
        allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found,
        kept_max=config.sluicegate_acls_decisions_max,
    )
    denials = import_module("broker_runtime.apis.request.denials").Denials(clock.monotonic)
    table = import_module("broker_runtime.apis.request.authorization.access_table")
    return Authorization(authorizer, denials, table.operations_of)


def gate_of(authorization: Authorization | None, is_active: Callable[[], bool] | None = None) -> Gate | None:
    """Return the gate that refuses whole requests; None without an authorizer.

    A controller on standby has no ACLs, and `is_active` is False for it: its gate lets all requests pass. The handlers
    then answer that clients must use another controller.
    """
    if authorization is None:
        return None
    access_gate: Callable[[Call], Reply | None] = import_module(_GATE).access_gate
    if is_active is None:
        return access_gate

    def gate(call: Call) -> Reply | None:
        return access_gate(call) if is_active() else None

    return gate
