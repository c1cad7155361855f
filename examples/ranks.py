"""Multiply ciphertexts in one process, or in several that share the work. The program is the same in both cases.

Use
    python ranks.py
    heliograph run -n 2 ranks.py
    heliograph run --hosts alpha,beta ranks.py
    mpirun -n 2 python ranks.py
"""

import time

import numpy as np

import heliograph as hg

params = hg.bfv.parameters(depth=1, plain_bits=30, slots=4096)
secret = hg.SecretKey.generate(params)
server = hg.Server(secret.evaluation_keys())

values = np.random.default_rng(1).integers(0, 1000, size=(64, 4096))
x = server.bind(secret.encrypt(values, slots=1))  # 64 ciphertexts, distributed over all ranks' devices
(x * x).wait()  # the first product uploads the keys to the devices

start = time.perf_counter()
products = x * x[::-1]
products.wait()
seconds = time.perf_counter() - start

right = np.array_equal(secret.decrypt(products), values * values[::-1])
print("computed on")
print(*(f"    {line}" for line in hg.devices()), sep="\n")
print(f"64 encrypted products in {1000 * seconds:.1f} ms: {'all right' if right else 'WRONG'}")
raise SystemExit(not right)
