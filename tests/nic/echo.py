"""UDP datagrams there and back: `serve ADDRESS`, or `ask ADDRESS FROM_PORT COUNT`."""

import socket
import sys

PORT = 7007

words = sys.argv[1:]
sock = socket.socket(socket.AF_INET6 if ":" in words[1] else socket.AF_INET, socket.SOCK_DGRAM)
if words[0] == "serve":
    sock.bind((words[1], PORT))
    while True:
        data, sender = sock.recvfrom(2048)
        sock.sendto(data, sender)
sock.bind(("", int(words[2])))
sock.settimeout(20)
for number in range(int(words[3])):
    sock.sendto(b"%d" % number, (words[1], PORT))
    if sock.recv(2048) != b"%d" % number:
        sys.exit(f"not the answer to {number}")
