"""Clients of bench/streams. They keep their connections open until they are killed."""

import signal
import socket
import ssl
import sys
import time

OPTIONS = (
    "OPTIONS sip:bench@example.com SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:5060;branch=z9hG4bK{}\r\n"
    "Max-Forwards: 0\r\nFrom: <sip:bench@example.com>;tag=1\r\nTo: <sip:bench@example.com>\r\nCall-ID: {}\r\n"
    "CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
)


def context(protocol="1.3"):
    """Returns a TLS context that accepts any certificate, because only the work of the server is measured."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    version = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[protocol]
    made.minimum_version = made.maximum_version = version
    return made


def connect(host, port, tls=None, session=None):
    plain = socket.create_connection((host, port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls.wrap_socket(plain, session=session) if tls else plain


def ask(connection, number):
    """Sends OPTIONS and waits for the response. The session ticket of TLS 1.3 has arrived before it."""
    connection.sendall(OPTIONS.format(number, number).encode())
    return connection.recv(65536)


def handshakes(host, protocol, way, count):
    tls, session, resumed = context(protocol), None, 0
    for number in range(int(count)):
        connection = connect(host, 5061, tls, session if way == "resumed" else None)
        ask(connection, number)
        resumed += connection.session_reused
        session = connection.session
        connection.close()
    print(count, resumed)


def idle(host, transport, count):
    tls = context() if transport == "tls" else None
    kept = []
    for number in range(int(count)):
        kept.append(connect(host, 5061 if tls else 5060, tls))
        ask(kept[-1], number)
    print(len(kept), flush=True)
    signal.pause()


def asking(host, reads, count):
    """Clients that send five requests a second each, and read the responses or not. A client that does not read first sends
    so many requests that the responses fill all buffers. It reconnects when the server closes its connection."""

    def client():
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect((host, 5060))
        plain.setblocking(False)
        if reads == "stalled":
            plain.send("".join(OPTIONS.format(number, number) for number in range(300)).encode())
        return plain

    kept = [client() for _ in range(int(count))]
    print(len(kept), flush=True)
    number = 1000
    while True:
        begun = time.monotonic()
        for place, plain in enumerate(kept):
            number += 1
            try:
                plain.send(OPTIONS.format(number, number).encode())
                if reads == "reading":
                    plain.recv(65536)
            except BlockingIOError:
                pass
            except OSError:
                plain.close()
                kept[place] = client()
        signal.sigtimedwait([], max(0, 0.2 + begun - time.monotonic()))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
