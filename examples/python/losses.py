#!/usr/bin/env python3
"""Prints the flows that lost packets, epoch after epoch, as a switch or controller closes them.

    weir run … --program chamelemon &
    python3 losses.py /run/weir/weir.sock

The API is HTTP with JSON documents (docs/json.md), on a Unix socket. Python's own library is enough.
"""

import argparse
import http.client
import json
import socket
import time


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the control socket of a switch."""

    def __init__(self, path):
        super().__init__("weir", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def get(path, query):
    """The document at `query`; the switch's own words if it refuses."""
    connection = UnixConnection(path)
    try:
        connection.request("GET", query)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise SystemExit(f"{query}: {response.status} {body.decode(errors='replace')}")
    return json.loads(body)


def endpoint(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def name(loss):
    """A flow in one line. An IPv6 flow may be known by its digest alone."""
    flow = loss["flow"]
    if "ipv6_digest" in loss:
        return f"IPv6 flow {loss['ipv6_digest']}"
    return f"{endpoint(flow['src'], flow['sport'])} > {endpoint(flow['dst'], flow['dport'])} proto {flow['proto']}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("socket", help="control socket of a switch or controller")
    arguments.add_argument("--epochs", type=int, help="end after so many epochs")
    arguments = arguments.parse_args()

    left = arguments.epochs
    # Those that end from now on.
    last = get(arguments.socket, "/v1/losses?seconds=1")["last_epoch"] or 0
    while left is None or left > 0:
        document = get(arguments.socket, f"/v1/losses?after={last}")
        if document.get("last_epoch") is None:
            time.sleep(0.02)
            continue
        last = document["last_epoch"]
        begin = document["start"][len("YYYY-MM-DDT") : len("YYYY-MM-DDThh:mm:ss.ffffff")]
        exact = "all losses" if document["complete"] else "not all is known"
        print(f"{begin} {document['lost_packets']} packets lost, {exact}", flush=True)
        for loss in document["losses"]:
            print(f"  {loss['packets']:>8} {'' if loss['exact'] else '~'}{name(loss)}", flush=True)
        if left is not None:
            left -= 1


if __name__ == "__main__":
    main()
