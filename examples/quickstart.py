"""Encrypt a table, compute sums and products on a server, and decrypt: the README's program with clear weights added."""

import numpy as np

import heliograph as hg

table = np.random.default_rng(1).integers(0, 100, size=(1000, 8))  # 1,000 people, 8 columns

params = hg.bfv.parameters(depth=1, plain_bits=30, slots=1000)  # the smallest 128-bit set
secret = hg.SecretKey.generate(params)  # stays with the data owner
server = hg.Server(secret.evaluation_keys())  # the keys that the server receives

x = server.from_bytes(secret.encrypt(table, slots=0).to_bytes())  # 8 ciphertexts of 1,000 slots
total = hg.sum(x)  # sum of each person's 8 values
product = hg.dot(x[:4], x[4:])  # encrypted times encrypted
weighted = hg.dot([3, 1, 4, 1, 5, 9, 2, 6], x)  # clear weights

print("means    ", secret.decrypt(total)[:3] / 8, "=", table[:3].mean(axis=1))
print("products ", secret.decrypt(product)[:3], "=", (table[:3, :4] * table[:3, 4:]).sum(axis=1))
print("weighted ", secret.decrypt(weighted)[:3], "=", table[:3] @ [3, 1, 4, 1, 5, 9, 2, 6])
