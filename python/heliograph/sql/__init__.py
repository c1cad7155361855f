"""SQL on a client's encrypted table. docs/query.md.

The examples of the functions continue these lines.

>>> import numpy as np
>>> import heliograph as hg
>>> frame = {"age": [23, 35, 31, 52, 28, 29], "salary": [2600, 3900, None, 4800, 2700, 3000]}
>>> layout = hg.sql.layout(frame, filters=["age"], sums=["salary"])
>>> secret = hg.SecretKey.generate(layout.parameters)
>>> table = hg.sql.encrypt(secret, layout, frame)
>>> server = hg.sql.SqlServer(secret.evaluation_keys())
>>> server.add(table)
>>> answer = server.sql("SELECT SUM(salary) AS total, COUNT(*) FROM t WHERE age < 30")
>>> plan, result = answer.plan, answer.decrypt(secret)
>>> result.to_dict()
{'total': [8300], 'count(*)': [3]}

The next example is a table that answers any query, but more slowly:

>>> whole = hg.sql.layout(frame, compares=["salary > age * 100"], extremes=["salary"])
>>> owner = hg.SecretKey.generate(whole.parameters)
>>> integers = hg.sql.encrypt(owner, whole, frame)
"""

from heliograph._common.columns import Column
from heliograph._common.sql_error import SqlError
from heliograph.sql.answers import Answer, Result
from heliograph.sql.layout_search import layout
from heliograph.sql.server import SqlServer
from heliograph.sql.slot_layout import Layout
from heliograph.sql.slot_plan import Plan
from heliograph.sql.table import EncryptedTable, encrypt
from heliograph.sql.tfhe_layout import IntegerLayout
from heliograph.sql.tfhe_plan import IntegerPlan

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
