"""Which addresses are plain public ones; tests/security/test_fetching.py tries to get past the guard."""

import ipaddress

import pytest

from indexer.crawl import guard


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "0.1.2.3", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.2.3",
        "240.0.0.1", "255.255.255.255", "192.88.99.1", "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1",
        "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::",
        "2001::1", "2001:db8::1", "3fff::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1",
        "100::1", "5f00::1", "4000::1",
    ],
)  # fmt: skip
def test_refuses_everything_that_is_not_plainly_public(address: str) -> None:
    assert guard.refusal(ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "151.101.1.1", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_public_addresses_pass(address: str) -> None:
    assert guard.refusal(ipaddress.ip_address(address)) is None
