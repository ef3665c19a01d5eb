"""A neighbour on a network card: sends datagrams evenly, and reads nothing.

    python3 neighbour.py ADDRESS:PORT BITS

BITS is the rate in bits a second, including the headers of IP and UDP.
"""

import socket
import sys
import time

OCTETS = 1200
HEADERS = 28

if __name__ == "__main__":
    host, port = sys.argv[1].rsplit(":", 1)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gap = (OCTETS + HEADERS) * 8 / float(sys.argv[2])
    due = time.monotonic()
    while True:
        try:
            sock.sendto(bytes(OCTETS), (host, int(port)))
        except OSError:
            pass  # no listener, or the card is full: the datagram counts as lost
        # After a pause it does not send the missed datagrams at once.
        due = max(due + gap, time.monotonic() - gap)
        time.sleep(max(0.0, due - time.monotonic()))
