"""TLS: keys and certificates in PEM, the contexts of OpenSSL made of them, and the principals of certificates."""
