"""The observers of a running broker: loaded, configured, called, limited in time, suspended and closed."""
