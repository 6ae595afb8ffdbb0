"""Refuses configurations with which the authorizer would refuse the cluster's own nodes. Pure."""

from collections.abc import Collection, Sequence

from broker_runtime.config.declaring.endpoints import Endpoint, SecurityProtocol, ServerAddress
from broker_runtime.config.keys.authorizer import ANONYMOUS, AuthorizerConfig, principals
from broker_runtime.errors import ConfigError


def check_authorizer(
    config: AuthorizerConfig,
    roles: Collection[str],
    listeners: Sequence[Endpoint],
    controller_listeners: Collection[str],
    quorum: Sequence[ServerAddress],
) -> None:
    """Raise ConfigError if the authorizer would refuse the brokers that connect to the controllers.

    It would refuse brokers that connect over PLAINTEXT, unless User:ANONYMOUS is a super user or everyone is allowed
    without ACLs. ACLs for ANONYMOUS do not count: a new cluster has none, and a cluster that relies on them locks
    itself out as soon as they are deleted. A single node for all roles needs no permission.
    """
    if not config.authorizer_class_name or config.allow_everyone_if_no_acl_found:
        return
    if ANONYMOUS in principals(config.super_users):
        return
    alone = "broker" in roles and "controller" in roles and len(quorum) <= 1
    opened = [each for each in listeners if each.listener in controller_listeners]
    if not alone and SecurityProtocol.PLAINTEXT in [each.security_protocol for each in opened] + [
        each.security_protocol for each in quorum
    ]:
        raise ConfigError(
            f"super.users: the brokers reach the controllers over PLAINTEXT as {ANONYMOUS}, which is not one of them, "
            f"so that the authorizer would refuse the brokers; add {ANONYMOUS} to super.users (all clients without "
            "authentication are super users then), or use a listener with authentication for the controllers"
        )
