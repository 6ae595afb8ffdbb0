"""PEM as OpenSSL's callers need it. Pure."""


def ascii_pem(text: str) -> str:
    """Return PEM in ASCII: the only other characters that are valid in it are those of comments between its blocks.

    Bundles of authorities have the authorities' names in comments. Python's ssl module takes no other text than ASCII.
    """
    return text.encode("ascii", "replace").decode("ascii")
