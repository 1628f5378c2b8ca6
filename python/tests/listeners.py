"""Certificates and ports of the switches that tests start."""

import socket
import subprocess
from pathlib import Path

# As docs/security.md makes them.
AUTHORITY = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj "/CN=CA" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
identity() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.csr -subj "/CN=$1"
    printf 'basicConstraints=CA:FALSE\\n%s\\n' "$2" > $1.ext
    openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $1.ext -out $1.pem
    chmod 600 $1.key
}
"""


def certificates(directory: Path, **identities: str) -> None:
    """Makes a CA, and a key and a certificate with these extensions for each name."""
    lines = [f'identity {name} "{extensions}"' for name, extensions in identities.items()]
    subprocess.run(["sh", "-ec", "\n".join([AUTHORITY, *lines])], cwd=directory, check=True, capture_output=True)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
