"""One transaction-stateful SIP proxy between user agents in SimPy: prints messages, seconds and the mean setup delay as JSON.

    pip install -r bench/simpy/requirements.txt
    python3 bench/simpy/proxy.py SECONDS RATE SERVICE SEED

Poisson calls of exponential length (mean 100 s) over UDP: INVITE, 100, 180, 200, ACK, BYE, 200. The proxy serves a message in
SERVICE seconds, first come first served, 1000 at most waiting. Every INVITE and BYE has a client and a server transaction at each
element that it passes: requests are sent again after T1, 2*T1, ... until they are answered, and a transaction is kept for the time
that RFC 3261 and RFC 6026 say. Written as the manual of SimPy has it: a process for what waits, a resource for the processor.
"""

import json
import random
import sys
import time

import simpy

T1, T2, T4 = 0.5, 4.0, 5.0
LIFE = 64 * T1
BUFFER = 1000


class Element:
    """Whatever keeps transactions."""

    def __init__(self, env, world):
        self.env, self.world = env, world
        self.clients, self.servers = {}, {}

    def request(self, to, key, message):
        """Begins a client transaction."""
        answered = self.env.event()
        self.clients[key] = answered
        self.env.process(self.client(to, key, message, answered))

    def client(self, to, key, message, answered):
        invite = message[0] == "INVITE"
        interval, end = T1, self.env.now + LIFE
        self.world.send(self, to, message)
        while True:
            yield answered | self.env.timeout(interval)
            if answered.triggered or self.env.now >= end:
                break
            self.world.send(self, to, message)
            interval = 2 * interval if invite else min(2 * interval, T2)
        if answered.triggered:
            yield self.env.timeout(LIFE if invite else T4)
        del self.clients[key]

    def accept(self, key):
        """Begins a server transaction; False: the request is a repetition."""
        if key in self.servers:
            if self.servers[key]:
                self.world.send(self, *self.servers[key])
            return False
        self.servers[key] = None
        return True

    def respond(self, key, to, message):
        self.servers[key] = (to, message)
        self.world.send(self, to, message)
        if message[1] >= 200:
            self.env.process(self.forget(key))

    def forget(self, key):
        yield self.env.timeout(LIFE)
        del self.servers[key]

    def responded(self, key):
        answered = self.clients.get(key)
        if answered is None:
            return False
        if not answered.triggered:
            answered.succeed()
        return True


class Proxy(Element):
    def __init__(self, env, world, service):
        super().__init__(env, world)
        self.service, self.cpu = service, simpy.Resource(env)

    def receive(self, sender, message):
        if len(self.cpu.queue) < BUFFER:
            self.env.process(self.serve(sender, message))

    def serve(self, sender, message):
        with self.cpu.request() as turn:
            yield turn
            yield self.env.timeout(self.service)
            self.handle(sender, message)

    def handle(self, sender, message):
        method, status, call = message
        key = (method, call)
        if status:
            if self.responded(key) and status > 100:
                self.respond(key, self.world.caller, message)
        elif method == "ACK":
            self.world.send(self, self.world.callee, message)
        elif self.accept(key):
            if method == "INVITE":
                self.respond(key, sender, (method, 100, call))
            self.request(self.world.callee, key, message)


class Caller(Element):
    def call(self, number, holding):
        self.world.answered[number] = answered = self.env.event()
        began = self.env.now
        self.request(self.world.proxy, ("INVITE", number), ("INVITE", 0, number))
        yield answered
        self.world.began[number] = began
        self.world.send(self, self.world.proxy, ("ACK", 0, number))
        yield self.env.timeout(holding)
        self.request(self.world.proxy, ("BYE", number), ("BYE", 0, number))

    def receive(self, sender, message):
        method, status, call = message
        if self.responded((method, call)) and status >= 200:
            answered = self.world.answered.pop(call, None)
            if method == "INVITE" and answered:
                answered.succeed()
            if method == "BYE":
                self.world.completed += 1


class Callee(Element):
    def receive(self, sender, message):
        method, status, call = message
        if method == "ACK":
            acknowledged = self.world.acknowledged.pop(call, None)
            if acknowledged:
                acknowledged.succeed()
        elif self.accept((method, call)):
            if method == "INVITE":
                self.env.process(self.answer(sender, call))
            else:
                self.respond((method, call), sender, (method, 200, call))

    def answer(self, sender, call):
        self.world.acknowledged[call] = acknowledged = self.env.event()
        self.world.send(self, sender, ("INVITE", 180, call))
        self.respond(("INVITE", call), sender, ("INVITE", 200, call))
        interval, end = T1, self.env.now + LIFE
        while True:
            yield acknowledged | self.env.timeout(interval)
            if acknowledged.triggered or self.env.now >= end:
                break
            interval = min(2 * interval, T2)
            self.world.send(self, sender, ("INVITE", 200, call))
        began = self.world.began.pop(call, None)
        if began is not None:
            self.world.setups.append(self.env.now - began)


class World:
    def __init__(self, env, service):
        self.messages = self.completed = 0
        self.answered, self.acknowledged, self.began, self.setups = {}, {}, {}, []
        self.proxy, self.caller, self.callee = Proxy(env, self, service), Caller(env, self), Callee(env, self)

    def send(self, sender, to, message):
        self.messages += 1
        to.receive(sender, message)


def calls(env, world, rate, rng):
    number = 0
    while True:
        yield env.timeout(rng.expovariate(rate))
        number += 1
        env.process(world.caller.call(number, rng.expovariate(0.01)))


def main():
    seconds, rate, service, seed = float(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    env = simpy.Environment()
    world = World(env, service)
    env.process(calls(env, world, rate, random.Random(seed)))
    started = time.process_time()
    env.run(until=seconds)
    spent = time.process_time() - started
    setup = sum(world.setups) / len(world.setups)
    print(json.dumps({"messages": world.messages, "seconds": spent, "completed": world.completed, "setup": setup}))


main()
