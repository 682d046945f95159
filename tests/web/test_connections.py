"""What counts as one client."""

from __future__ import annotations

import pytest

from seesay.web.connections import client_of, is_in, networks


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1", "fe80::2", False),  # neighbours in a network of their own
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("", "192.0.2.1", False),
    ],
)
def test_a_network_of_ipv6_is_one_client(one: str, other: str, same: bool) -> None:
    assert (client_of(one) == client_of(other)) is same


def test_proxies_are_known_by_either_spelling_of_their_address() -> None:
    among = networks(["10.0.0.0/8", "2001:db8::/32"])
    assert all(is_in(host, among) for host in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::7"))
    assert not any(is_in(host, among) for host in ("11.1.2.3", "::1", "", "localhost"))
