"""What the kernel knows about a connection that the event loop has not been told yet.

Between two requests a server may close a kept-alive connection, and its farewell may still lie unread in
the kernel when the next request takes it. Asking the kernel costs microseconds and saves calling a healthy
server broken. Where the kernel cannot say (not Linux, a closed descriptor), the answer is "not known" and
nothing is assumed.
"""

import asyncio
import os
import select
import socket
import struct

_FAREWELL = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
# Offset of tcpi_bytes_acked (u64) in Linux' struct tcp_info, there since Linux 4.1.
_BYTES_ACKED_AT = 120
_TCP_INFO = getattr(socket, "TCP_INFO", None)


def _descriptor(transport: asyncio.BaseTransport | None) -> int | None:
    held = transport.get_extra_info("socket") if transport is not None else None
    number = held.fileno() if held is not None else -1
    return number if number >= 0 else None


def has_farewell(transport: asyncio.BaseTransport | None) -> bool:
    """True when the peer has closed or reset this connection, read by the loop or not."""
    number = _descriptor(transport)
    if number is None:
        return True
    poll = select.poll()
    poll.register(number, _FAREWELL)
    return bool(poll.poll(0))


def acknowledged(transport: asyncio.BaseTransport | None) -> int | None:
    """Bytes that the peer's kernel has acknowledged since the connection began; None where that is not known."""
    number = _descriptor(transport)
    if number is None or _TCP_INFO is None:
        return None
    try:
        # A duplicate, because uvloop's stand-in for a socket has no getsockopt.
        with socket.socket(fileno=os.dup(number)) as peer:
            info = peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_ACKED_AT + 8)
    except OSError:
        return None
    return int(struct.unpack_from("=Q", info, _BYTES_ACKED_AT)[0]) if len(info) >= _BYTES_ACKED_AT + 8 else None
