"""Who is at the other end of a loopback connection, as the kernel tells it."""

import os
from collections.abc import Iterator
from pathlib import Path

ESTABLISHED = "01"


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            local_port = int(fields[1].rpartition(":")[2], 16)
            if local_port == port and fields[3] == ESTABLISHED and fields[9] != "0":
                yield fields[9]


def process_of_peer(port: int) -> int:
    """Return the id of the process that holds the connection from this local port.

    ``port`` is the peer's own port, as ``getpeername()`` says it. Raises LookupError
    when no process of ours has it: closed, or already dead.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            for descriptor in (process / "fd").iterdir():
                if os.readlink(descriptor) in wanted:
                    return int(process.name)
        except OSError:  # gone meanwhile, or somebody else's
            continue
    raise LookupError(f"no process holds a connection from port {port}")
