"""The M/M/1 queue of bench sim in SimPy: prints events, seconds and the mean wait as JSON.

    pip install -r bench/simpy/requirements.txt
    python3 bench/simpy/mm1.py JOBS LOAD SEED

A job is two events of the model, its arrival and the end of its service, as bench sim counts them; what SimPy needs
besides (requests granted, processes started and ended) is its own affair.
"""

import json
import random
import sys
import time

import simpy


def customer(env, server, rng, waits):
    came = env.now
    with server.request() as request:
        yield request
        waits.append(env.now - came)
        yield env.timeout(rng.expovariate(1.0))


def source(env, server, jobs, load, rng, waits):
    for _ in range(jobs):
        yield env.timeout(rng.expovariate(load))
        env.process(customer(env, server, rng, waits))


def main():
    jobs, load, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    env = simpy.Environment()
    waits = []
    started = time.process_time()
    env.process(source(env, simpy.Resource(env), jobs, load, random.Random(seed), waits))
    env.run()
    seconds = time.process_time() - started
    print(json.dumps({"events": 2 * jobs, "seconds": seconds, "mean_wait": sum(waits) / len(waits)}))


main()
