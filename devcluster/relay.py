"""The one loopback port of a cluster that lives in a network namespace of its own.

A socket belongs to the namespace in which it was made, not to that of the process that uses it. So
the listening socket is made on the host and handed to this program, which runs inside the cluster's
namespace, accepts there and dials the API server. Bytes pass through, and none is understood;
nothing of ours is imported, for it is run as a file.
"""

import asyncio
import contextlib
import socket
import sys

_CHUNK = 2**18
_ARGUMENTS = 4


async def relay(listener: socket.socket, host: str, port: int) -> None:
    """Join every connection accepted by ``listener`` to a new one to ``host:port``, forever.

    Each direction is closed on its own. While nothing listens at the target, connections are
    closed at once.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            target_reader, target_writer = await asyncio.open_connection(host, port, limit=_CHUNK)
            await asyncio.gather(_pump(reader, target_writer), _pump(target_reader, writer))
            await _close(target_writer)
        await _close(writer)

    server = await asyncio.start_server(serve, sock=listener, limit=_CHUNK)
    await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes until the sender closes; an error aborts the receiver and so the way back."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def main() -> None:
    """Run with the listening socket's descriptor and the target's address and port as arguments."""
    if len(sys.argv) != _ARGUMENTS:
        sys.exit("usage: relay.py DESCRIPTOR HOST PORT")
    listener = socket.socket(fileno=int(sys.argv[1]))
    asyncio.run(relay(listener, sys.argv[2], int(sys.argv[3])))


if __name__ == "__main__":
    main()
