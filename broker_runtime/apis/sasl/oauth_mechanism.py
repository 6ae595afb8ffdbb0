"""OAUTHBEARER on a listener: rules and keys of its tokens, from the configuration. Shell."""

from broker_runtime.apis.sasl.key_sets import KeySetLimits, KeySource, key_source
from broker_runtime.apis.sasl.listener_settings import Create, ListenerValues
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig, BrokerSettings
from broker_runtime.errors import ConfigError, detached
from broker_runtime.security.sasl.mechanism import OAUTHBEARER, Authenticated, SaslRefusedError
from broker_runtime.security.sasl.oauthbearer import OAuthBearerServer
from broker_runtime.security.sasl.tokens import TokenRules, UnknownKeyError, check_token


class OAuthMechanism:
    """The mechanism OAUTHBEARER of all listeners, with their key sets.

    Create it while the event loop runs. Raises ConfigError.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._sources: list[KeySource] = []

    def of(self, listener: str) -> Create:
        """Return the factory of the listener's OAUTHBEARER mechanisms; each exchange creates a mechanism."""
        values = ListenerValues(self._settings, listener)
        audiences = values.get(BrokerConfig.sasl_oauthbearer_expected_audience, OAUTHBEARER)
        rules = TokenRules(
            values.get(BrokerConfig.sasl_oauthbearer_expected_issuer, OAUTHBEARER),
            frozenset(audiences),
            values.get(BrokerConfig.sasl_oauthbearer_clock_skew_seconds, OAUTHBEARER),
            values.get(BrokerConfig.sasl_oauthbearer_sub_claim_name, OAUTHBEARER),
            values.get(BrokerConfig.sasl_oauthbearer_scope_claim_name, OAUTHBEARER),
        )
        source = self._source(values, listener)
        self._sources.append(source)

        def verify(token: str) -> Authenticated | SaslRefusedError:
            try:
                claims = check_token(token, source.current(), rules, self._clock.wall_ms() / 1000)
            except UnknownKeyError as error:
                source.key_unknown(error.kid)
                return detached(error)
            except SaslRefusedError as error:
                return detached(error)
            return Authenticated(claims.name, expires_ms=claims.expires_ms)

        return lambda: OAuthBearerServer(verify)

    @staticmethod
    def _source(values: ListenerValues, listener: str) -> KeySource:
        url = values.get(BrokerConfig.sasl_oauthbearer_jwks_endpoint_url, OAUTHBEARER)
        if url is None:
            raise ConfigError(
                "sasl.oauthbearer.jwks.endpoint.url is needed, because OAUTHBEARER is enabled on the listener "
                f"{listener}; tokens without a signature are not accepted"
            )
        limits = KeySetLimits(
            values.get(BrokerConfig.sasl_oauthbearer_jwks_endpoint_refresh_ms, OAUTHBEARER) / 1000,
            values.get(BrokerConfig.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms, OAUTHBEARER) / 1000,
            values.get(BrokerConfig.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms, OAUTHBEARER) / 1000,
            values.get(BrokerConfig.sluicegate_oauthbearer_jwks_timeout_ms, OAUTHBEARER) / 1000,
            values.get(BrokerConfig.sluicegate_oauthbearer_jwks_max_bytes, OAUTHBEARER),
        )
        ca_file = values.get(BrokerConfig.sluicegate_oauthbearer_jwks_ca_file, OAUTHBEARER)
        token_file = values.get(BrokerConfig.sluicegate_oauthbearer_jwks_token_file, OAUTHBEARER)
        return key_source(url, ca_file, token_file, limits)

    def close(self) -> None:
        for source in self._sources:
            source.close()
