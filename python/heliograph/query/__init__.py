"""Queries on encrypted tables: the client's data, a query in the clear. docs/query.md.

The examples of its functions go on from these lines.

>>> import numpy as np
>>> import heliograph as hg
>>> frame = {"age": [23, 35, 31, 52, 28, 29], "salary": [2600, 3900, None, 4800, 2700, 3000]}
>>> layout = hg.query.layout(frame, filters=["age"], sums=["salary"])
>>> secret = hg.SecretKey.generate(layout.parameters)
>>> table = hg.query.encrypt(secret, layout, frame)
>>> server = hg.query.SqlServer(secret.evaluation_keys())
>>> server.add(table)
>>> answer = server.sql("SELECT SUM(salary) AS total, COUNT(*) FROM t WHERE age < 30")
>>> plan, result = answer.plan, answer.decrypt(secret)
>>> result.to_dict()
{'total': [8300], 'count(*)': [3]}

A table that answers any query, and more slowly:

>>> whole = hg.query.layout(frame, compares=["salary > age * 100"], extremes=["salary"])
>>> owner = hg.SecretKey.generate(whole.parameters)
>>> integers = hg.query.encrypt(owner, whole, frame)
"""

from heliograph.query.answers import Answer, Result
from heliograph.query.choosing import layout
from heliograph.query.columns import Column
from heliograph.query.errors import SqlError
from heliograph.query.integer_plan import IntegerPlan
from heliograph.query.integers import IntegerLayout
from heliograph.query.layout import Layout
from heliograph.query.plan import Plan
from heliograph.query.server import SqlServer
from heliograph.query.table import EncryptedTable, encrypt

__all__ = [
    "Answer",
    "Column",
    "EncryptedTable",
    "IntegerLayout",
    "IntegerPlan",
    "Layout",
    "Plan",
    "Result",
    "SqlError",
    "SqlServer",
    "encrypt",
    "layout",
]
