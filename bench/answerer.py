"""A SIP server that answers every call by itself: 180 and 200 to INVITE, 200 to anything else.

    python3 answerer.py ADDRESS:PORT NUMBER WORK [DATABASE:PORT]

It retransmits a 200 to INVITE until the ACK comes (RFC 3261 section 13.3.1.4). NUMBER is in the tag and in the Contact, like
the number of other answerers of the benchmark, so that callers can identify the server. WORK is the processor time of a new
call in microseconds, for the application of the server. With a database (database.py) it looks up each INVITE first, and
does nothing else until the answer comes, like a worker of a server in C.
"""

import heapq
import select
import socket
import sys
import time

T1, T2 = 0.5, 4.0
SDP = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n"
# Compact forms of header names (section 7.3.3).
COMPACT = {"v": "via", "f": "from", "t": "to", "i": "call-id"}


class Unacknowledged:
    """The 200s to INVITE whose ACK has not come, by Call-ID."""

    def __init__(self):
        self.responses, self.due = {}, []

    def add(self, now, call, response, to):
        if call not in self.responses:
            self.responses[call] = (response, to, now)
            heapq.heappush(self.due, (now + T1, T1, call))

    def acknowledged(self, call):
        self.responses.pop(call, None)

    def wait(self, now):
        """Returns the seconds until the next retransmission, or None if there is none."""
        return max(0.0, self.due[0][0] - now) if self.due else None

    def take_due(self, now):
        """Yields the responses to retransmit now. Each is given up after 64*T1."""
        while self.due and self.due[0][0] <= now:
            _, waited, call = heapq.heappop(self.due)
            if call not in self.responses:
                continue
            response, to, since = self.responses[call]
            if now >= since + 64 * T1:
                del self.responses[call]
                continue
            wait = min(2 * waited, T2)
            heapq.heappush(self.due, (now + wait, wait, call))
            yield response, to


def headers(request):
    """Returns the method, the header lines with their names, and the first Call-ID line."""
    head = request.split("\r\n\r\n", 1)[0].split("\r\n")
    lines = []
    for line in head[1:]:
        name = line.split(":", 1)[0].strip().lower()
        lines.append((COMPACT.get(name, name), line))
    call = next((line for name, line in lines if name == "call-id"), "")
    return head[0].split(" ", 1)[0], lines, call


def respond(lines, status, tag, contact="", body=""):
    """Returns a response (section 8.2.6.2). A response to INVITE has the route set (section 12.1.1)."""
    kept = {"via", "from", "to", "call-id", "cseq"} | ({"record-route"} if contact else set())
    out = ["SIP/2.0 " + status]
    for name, line in lines:
        if name in kept:
            out.append(line + ";tag=" + tag if name == "to" and ";tag=" not in line else line)
    if contact:
        out.append(contact)
    if body:
        out.append("Content-Type: application/sdp")
    out.append("Content-Length: %d\r\n\r\n%s" % (len(body), body))
    return "\r\n".join(out).encode()


def work(seconds):
    """Uses this much processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Database:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect((host, int(port)))
        # A query may be lost before the database listens.
        self.sock.settimeout(T1)

    def look_up(self, call):
        query = call.encode()
        while True:
            try:
                self.sock.send(query)
                # Skip answers to copies of earlier queries.
                while self.sock.recv(65536) != query:
                    pass
                return
            except OSError:
                continue


class Answerer:
    def __init__(self, address, number, work_us, send, database=None):
        self.database = database
        self.work_s = float(work_us) / 1e6
        self.tag, self.contact = "s%s" % number, "Contact: <sip:s%s@%s>" % (number, address)
        self.send, self.unacknowledged = send, Unacknowledged()

    def handle(self, now, datagram, sender):
        method, lines, call = headers(datagram.decode("utf-8", "replace"))
        if method == "SIP/2.0":
            return
        if method in ("ACK", "BYE"):
            self.unacknowledged.acknowledged(call)
        if method == "INVITE":
            if self.database:
                self.database.look_up(call)
            work(self.work_s)
            self.send(respond(lines, "180 Ringing", self.tag, self.contact), sender)
            answer = respond(lines, "200 OK", self.tag, self.contact, SDP)
            self.send(answer, sender)
            self.unacknowledged.add(now, call, answer, sender)
        elif method != "ACK":
            self.send(respond(lines, "200 OK", self.tag), sender)


def serve(address, number, work_us, database=None):
    host, port = address.rsplit(":", 1)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind((host, int(port)))
    answerer = Answerer(address, number, work_us, sock.sendto, database and Database(database))
    while True:
        ready, _, _ = select.select([sock], [], [], answerer.unacknowledged.wait(time.monotonic()))
        if ready:
            datagram, sender = sock.recvfrom(65536)
            answerer.handle(time.monotonic(), datagram, sender)
        for response, to in answerer.unacknowledged.take_due(time.monotonic()):
            sock.sendto(response, to)


if __name__ == "__main__":
    serve(*sys.argv[1:5])
