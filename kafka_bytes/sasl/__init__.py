"""The client's side of SASL: tokens and challenges of PLAIN, SCRAM and OAUTHBEARER. Pure."""
