"""A database in which servers look up calls. It sends each datagram back, one after another.

    python3 database.py ADDRESS:PORT WORK

WORK is the processor time of an answer in microseconds.
"""

import socket
import sys
import time


def work(seconds):
    """Uses this much processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


if __name__ == "__main__":
    host, port = sys.argv[1].rsplit(":", 1)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host, int(port)))
    while True:
        query, server = sock.recvfrom(65536)
        work(float(sys.argv[2]) / 1e6)
        sock.sendto(query, server)
