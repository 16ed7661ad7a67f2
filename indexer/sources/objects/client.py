"""The client of object stores: how a bucket is opened, and what the client says of a request."""

import errno
import os
import re
from datetime import timedelta
from enum import Enum
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

EXTRA = "this needs the extra remote: pip install 'pilotlight[remote]'"
CREDENTIALS = {  # by scheme: where they are looked for first
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
PLACES = {"s3": "AWS_REGION and AWS_ENDPOINT_URL", "gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ENDPOINT"}  # said
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_RETRY: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
# what the client says of a request, which takes another time at every try
_REQUEST = re.compile(
    r"Generic \w+ error: |Error performing list request: |Error performing \w+ (?:\S+|REDACTED) in .*? - "
)
# addresses where a machine in the cloud is asked for its credentials
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "/latest/api/token", "computeMetadata", "metadata/identity")
_REFUSED = re.compile(r"status code: 40[13]\b")  # of a listing, for which the client has no error of its own
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_BODY = re.compile(r":? *<[?\w]")  # of an answer: it may repeat what was sent
_NO_CREDENTIALS = ("Account must be specified", "credential error", "Container must be specified")


class Trouble(Enum):
    """The kinds of what a store has against a request."""

    REFUSED = "refused"
    NO_CREDENTIALS = "no credentials"
    NO_BUCKET = "no such bucket"
    MISSING = "no such object"
    OTHER = "other"


def version() -> str:
    """Return the version of the client; empty where the extra is not installed."""
    try:
        return metadata.version("obstore")
    except metadata.PackageNotFoundError:
        return ""


def open_bucket(scheme: str, name: str, *, timeout: float, user_agent: str) -> "ObjectStore":
    """Open a bucket, with credentials and endpoint from the environment; nothing is asked for yet.

    Args:
        scheme: s3, gs or az.
        name: of the bucket, or the container.
        timeout: seconds that one request may take.
        user_agent: what the store is told about who asks.

    Raises:
        ModuleNotFoundError: the extra is not installed.
        obstore.exceptions.BaseError: the environment does not say enough, or makes no sense.
    """
    from obstore.store import AzureStore, GCSStore, S3Store

    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=5),
        "timeout": timedelta(seconds=timeout),
        "user_agent": user_agent,
    }
    # an endpoint without TLS is one that was named so
    if any(os.environ.get(variable, "").lower().startswith("http://") for variable in _ENDPOINTS[scheme]):
        client["allow_http"] = True
    if scheme == "s3":
        return S3Store(name, client_options=client, retry_config=_RETRY)
    if scheme == "gs":
        return GCSStore(name, client_options=client, retry_config=_RETRY)
    return AzureStore(name, client_options=client, retry_config=_RETRY)


def trouble(error: Exception) -> Trouble:
    """Return of which kind an error of the client is."""
    from obstore import exceptions

    text = str(error)
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError):
        return Trouble.REFUSED
    if "NoSuchBucket" in text or "ContainerNotFound" in text or "The specified bucket does not exist" in text:
        return Trouble.NO_BUCKET
    if isinstance(error, FileNotFoundError):
        return Trouble.MISSING
    if any(word in text for word in (*_METADATA_SERVICES, *_NO_CREDENTIALS)):
        return Trouble.NO_CREDENTIALS
    if _REFUSED.search(text.partition("\n")[0]):
        return Trouble.REFUSED
    return Trouble.OTHER


def first_line(error: Exception) -> str:
    """Return what an error of the client says, without how long it took."""
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return error.strerror or str(error)
    text = str(error)
    said, _, _ = text.partition("\n")
    code = _CODE.search(text)
    return _BODY.split(_REQUEST.sub("", said))[0] + (f": {code[1]}" if code else "")
