"""Encrypted data frames: named columns of reals and exact numbers, and statistics that return pandas objects.

The owner finds sets by `parameters_for`, makes a `SecretKey` and encrypts a frame. A `Server` computes statistics, which
stay encrypted until the owner decrypts them.

The examples of this module's functions continue this example.

>>> import heliograph as hg
>>> sales = {"price": [10.0, 20.0, 30.0, None], "quantity": [5, 8, 3, 0], "region": ["north", "north", "south", None]}
>>> params = hg.frame.parameters_for(sales)
>>> owner = hg.frame.SecretKey.generate(params)
>>> server = hg.frame.Server(owner.evaluation_keys())
>>> f = server.bind(owner.encrypt(sales))
>>> owner.decrypt(f[["price", "quantity"]].mean())
price       20.0
quantity     4.0
dtype: float64
"""

from heliograph._common.columns import Column
from heliograph.frame.answers import Answer
from heliograph.frame.columns import Real
from heliograph.frame.encrypted import EncryptedFrame, GroupBy
from heliograph.frame.keys import EvaluationKeys, SecretKey, Server
from heliograph.frame.parameters import Parameters, Part, parameters_for
from heliograph.frame.series import Series

__all__ = [
    "Answer",
    "Column",
    "EncryptedFrame",
    "EvaluationKeys",
    "GroupBy",
    "Parameters",
    "Part",
    "Real",
    "SecretKey",
    "Series",
    "Server",
    "parameters_for",
]
