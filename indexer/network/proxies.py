"""The proxies and the trusted certificates of requests."""

import ssl
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi

from indexer.network.urls import is_loopback

ENVIRONMENT = "environment"


def proxy_for(url: str, setting: str) -> str | None:
    """Return the address of the proxy for a URL, or None. This machine is always reached without a proxy."""
    url_parts = urlsplit(url)
    if not setting or is_loopback(url_parts.hostname or ""):
        return None
    if setting != ENVIRONMENT:
        return setting
    if proxy_bypass(url_parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = proxies.get(url_parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def unused_proxy(url: str, setting: str) -> str:
    """Return a hint for a connection error if the environment has a proxy that the setting ignores."""
    is_unused = not setting and proxy_for(url, ENVIRONMENT)
    return "; the proxy in the environment is used only with --http-proxy environment" if is_unused else ""


def tls_context() -> ssl.SSLContext:
    """Return a context that trusts the authorities of certifi, and those of this machine or of SSL_CERT_FILE."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
