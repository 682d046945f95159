"""What counts as one client."""

from __future__ import annotations

import pytest

from seesay.web.security import client_of


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
