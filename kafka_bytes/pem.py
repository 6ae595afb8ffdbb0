"""PEM as OpenSSL's callers need it. Pure."""


def ascii_pem(text: str) -> str:
    """Return PEM text with `?` for each character that is not ASCII.

    Only comments between PEM blocks have such characters.

    Bundles of authorities have the authorities' names in comments. Python's ssl module accepts only ASCII.
    """
    return text.encode("ascii", "replace").decode("ascii")
