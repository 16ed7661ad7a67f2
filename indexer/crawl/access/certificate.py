"""TLS of the crawler: which authorities it trusts, and the certificate that it shows."""

import ssl
from typing import NoReturn

import certifi

from indexer.credentials import ClientCertificate, check_private_file
from indexer.errors import CredentialsError


def tls_context(certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of this machine and of certifi.

    Raises CredentialsError: the certificate to show, or its key, cannot be used.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    if certificate is None:
        return context
    check_private_file(certificate.key or certificate.file)
    place = certificate.key_password
    password = place.read().reveal() if place else _no_password
    try:
        context.load_cert_chain(certificate.file, certificate.key, password)
    except ssl.SSLError:
        raise CredentialsError(
            f"{certificate.file} and its key are no certificate and key in PEM, or key_password is not that of the key"
        ) from None
    except OSError as error:
        raise CredentialsError(f"{certificate.file} cannot be read: {error.strerror}") from None
    return context


def _no_password() -> NoReturn:
    """Keep OpenSSL from asking the terminal."""
    raise CredentialsError("the key of the client certificate is encrypted: set key_password")
