"""Queries on encrypted tables, and private look-up in tables of the server's. docs/query.md.

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
>>> db = hg.query.Database({"phone": ["+41 1", "+41 2"], "city": ["Bern", "Basel"]}, key="phone")
>>> client = db.client()
>>> question = client.ask("+41 1")
>>> reply = db.answer(question.to_bytes())
"""

from heliograph.query.columns import Column
from heliograph.query.errors import SqlError
from heliograph.query.layout import Layout
from heliograph.query.lookup import Database, LookupClient, Question
from heliograph.query.plan import Plan
from heliograph.query.server import Answer, Result, SqlServer
from heliograph.query.table import EncryptedTable, encrypt, layout

__all__ = [
    "Answer",
    "Column",
    "Database",
    "EncryptedTable",
    "Layout",
    "LookupClient",
    "Plan",
    "Question",
    "Result",
    "SqlError",
    "SqlServer",
    "encrypt",
    "layout",
]
