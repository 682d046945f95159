"""Addresses of clients, and connections with time limits for slow clients.

uvicorn waits without a limit for the rest of a request and for clients that do not read, counts such
connections as busy, and reads a body to its end even after the response.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from seesay.errors import SeesayError
from seesay.web.options import Limits

_AFTER_ANSWER_BYTES = 2**20  # of a body, read after the response so that the client receives it
_AFTER_ANSWER_SECONDS = 2.0
_GRACE_SECONDS = 2.0  # for the response to a request that took too long


Networks: TypeAlias = Collection[ipaddress.IPv4Network | ipaddress.IPv6Network]


def networks(names: Iterable[str]) -> Networks:
    """Parse addresses, and networks such as 10.0.0.0/8.

    Raises:
        SeesayError: an entry is neither.
    """
    found = []
    for name in names:
        try:
            found.append(ipaddress.ip_network(name))
        except ValueError as error:
            raise SeesayError(
                f"{name}: not an address or network; write one such as 127.0.0.1 or 172.30.57.0/24."
            ) from error
    return found


def is_in(host: str, among: Networks) -> bool:
    """Return whether an address is in one of the networks."""
    address = _address(host)
    return address is not None and any(address in each for each in among)


def client_of(host: str) -> str:
    """Return the identity of a client: an IPv4 address, or a /64 network of IPv6.

    >>> client_of("::ffff:192.0.2.7"), client_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address) and not address.is_link_local:
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return host if address is None else str(address)


def is_local(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def host_allowed(header: str, hosts: Collection[str]) -> bool:
    """Return True if a Host header is one of `hosts` or any numeric address.

    This prevents DNS rebinding, in which the name of another site resolves to this server.
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


class Connection(H11Protocol):
    """An HTTP/1.1 connection.

    A new connection beyond the limits closes the one that has waited longest for the rest of a request or, if
    there is none, for its client to read a response.

    Args:
        limits: the limits of the server.
        proxies: networks of proxies, whose connections are not limited, since they serve many clients.
        options: the options of uvicorn's protocol.
    """

    def __init__(self, limits: Limits, proxies: Networks = (), **options: Any) -> None:
        super().__init__(**options)
        self._limits, self._proxies = limits, proxies
        self._timer: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._timed_state: object = None
        self._unread = 0
        self.of = ""
        self.untaken_since = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or close it or another one."""
        super().connection_made(transport)
        # Headers and body are sent separately. With Nagle's algorithm, the system holds the body back until
        # the client has acknowledged the headers, which takes 40 ms. asyncio disables it only for sockets
        # that name their protocol.
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.accepted = self.loop.time()
        self._time()
        self._make_room()

    def _make_room(self) -> None:
        """Close a connection if there are too many, of this client or in total."""
        host = self.client[0] if self.client else ""
        self.of = client_of(host)
        everyone = [one for one in self.connections if isinstance(one, Connection)]
        neighbours = [one for one in everyone if one.of == self.of]
        if len(neighbours) > self._limits.connections_an_address and not is_in(host, self._proxies):
            (_longest_waiting(neighbours) or self).drop()
        elif len(everyone) > self._limits.connections:
            others = [one for one in everyone if one is not self]
            slowest = _longest_waiting(others) or _longest_untaken(others)
            if slowest is not None:  # otherwise all are busy, and uvicorn answers with 503
                slowest.drop()

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not yet sent a complete request."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def drop(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Receive data, and time the rest of the request."""
        super().data_received(data)
        self._time()
        if self._is_answered_early():
            self._unread += len(data)
            if self._unread > _AFTER_ANSWER_BYTES:
                self.drop()

    def on_response_complete(self) -> None:
        """Finish a response; a body that is still being sent is cut off soon."""
        super().on_response_complete()
        if self._is_answered_early():
            self._unread = 0
            self._restart(_AFTER_ANSWER_SECONDS)
        else:
            self._time()

    def pause_writing(self) -> None:
        """Pause writing until the client has read, within a time limit."""
        super().pause_writing()
        self.untaken_since = self.loop.time()
        self._watch_taking()

    def resume_writing(self) -> None:
        """Resume writing."""
        self.untaken_since = math.inf
        self._stop_watching()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._restart(None)
        self._stop_watching()
        super().connection_lost(exc)

    def _watch_taking(self) -> None:
        """Drop the connection if the client reads too slowly."""
        self._stop_watching()
        left = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(self._limits.untaken_seconds, self._check_taking, left)

    def _check_taking(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left and before - left < self._limits.slowest * self._limits.untaken_seconds:
            self.drop()
        elif left:
            self._watch_taking()
        else:
            self._timed_state = None  # the next request is timed from here
            self._time()

    def _stop_watching(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _is_answered_early(self) -> bool:
        answered = self.cycle is not None and self.cycle.response_complete
        return answered and self.conn.their_state is h11.SEND_BODY

    def _time(self) -> None:
        """Start the timer when headers or a body begin; further data do not extend it."""
        state = self.conn.their_state
        if state is not self._timed_state:
            self._timed_state = state
            if not self.flow.write_paused:
                self._stop_watching()  # a client that sends a new request has read the last response
            times = {
                h11.IDLE: self._limits.header_seconds,
                h11.SEND_BODY: self._limits.seconds + _GRACE_SECONDS,
            }
            self._restart(times.get(state))

    def _restart(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._time_is_over)

    def _time_is_over(self) -> None:
        if self.transport.get_write_buffer_size():
            self._watch_taking()  # the client may still be reading the previous response
        else:
            self.drop()


def _longest_untaken(connections: list[Connection]) -> Connection | None:
    return min(
        (one for one in connections if one.untaken_since < math.inf),
        key=lambda one: one.untaken_since,
        default=None,
    )


def _longest_waiting(connections: list[Connection]) -> Connection | None:
    waiting = [one for one in connections if one.is_waiting]
    return min(waiting, key=lambda one: one.accepted, default=None)
