"""Private queries: a client's encrypted data and a query in the clear, a server's data in the clear and an encrypted query.
docs/query.md.

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

Vectors in the clear:

>>> index = hg.query.Vectors(np.array([[1, 2, 0], [0, 0, -3], [2, 2, 1], [-4, 1, 1]], np.int8))
>>> client = hg.query.VectorClient(index.layout)
>>> query = hg.Server(client.evaluation_keys()).bind(client.encrypt(np.array([1, 1, 1], np.int8)))
>>> scores = index.scores(query)
>>> found = client.nearest(scores, k=2)

A table in the clear:

>>> db = hg.query.Database({"phone": ["+41 1", "+41 2"], "city": ["Bern", "Basel"]}, key="phone")
>>> caller = db.client()
>>> question = caller.ask("+41 1")
>>> reply = db.answer(question.to_bytes())
"""

from heliograph.query.answers import Answer, Result
from heliograph.query.choosing import layout
from heliograph.query.columns import Column
from heliograph.query.errors import SqlError
from heliograph.query.integer_plan import IntegerPlan
from heliograph.query.integers import IntegerLayout
from heliograph.query.layout import Layout
from heliograph.query.lookup import Database, LookupClient, Question
from heliograph.query.plan import Plan
from heliograph.query.server import SqlServer
from heliograph.query.table import EncryptedTable, encrypt
from heliograph.query.vectors import Neighbours, Scores, VectorClient, VectorLayout, Vectors

__all__ = [
    "Answer",
    "Column",
    "Database",
    "EncryptedTable",
    "IntegerLayout",
    "IntegerPlan",
    "Layout",
    "LookupClient",
    "Neighbours",
    "Plan",
    "Question",
    "Result",
    "Scores",
    "SqlError",
    "SqlServer",
    "VectorClient",
    "VectorLayout",
    "Vectors",
    "encrypt",
    "layout",
]
