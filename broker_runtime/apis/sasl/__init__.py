"""SASL on a listener: frames of the exchange, and the APIs of SCRAM credentials."""
