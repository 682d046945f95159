"""Addresses of clients, proxies and of the server itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from typing import TypeAlias

from seesay.errors import SeesayError

Networks: TypeAlias = Collection[ipaddress.IPv4Network | ipaddress.IPv6Network]


def networks(names: Iterable[str]) -> Networks:
    """Read addresses, and networks such as 10.0.0.0/8.

    Raises:
        SeesayError: one is neither.
    """
    found = []
    for name in names:
        try:
            found.append(ipaddress.ip_network(name))
        except ValueError as error:
            raise SeesayError(
                f"{name}: no address or network of a proxy; write one such as 127.0.0.1 or 172.30.57.0/24."
            ) from error
    return found


def is_in(host: str, among: Networks) -> bool:
    """Return whether an address is in one of the networks."""
    address = _address(host)
    return address is not None and any(address in each for each in among)


def client_of(host: str) -> str:
    """Return what counts as one client: an IPv4 address, or a /64 network of IPv6.

    >>> client_of("::ffff:192.0.2.7"), client_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address) and not address.is_link_local:
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return host if address is None else str(address)


def is_local(host: str) -> bool:
    """Return whether an address to listen on can be reached from this machine only."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def host_allowed(header: str, hosts: Collection[str]) -> bool:
    """Return True if a Host header is one of `hosts` or any numeric address.

    This stops DNS rebinding, in which the name of a foreign site resolves to this server.
    """
    name = header.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    else:
        name = name.partition(":")[0].rstrip(".")
    return name in hosts or _address(name) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address, IPv4 also when mapped into IPv6; None if it is not one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
