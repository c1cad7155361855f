"""Private look-up: a client reads a row of a server's clear table, and the server does not learn which. docs/query.md.

The examples of the functions continue these lines.

>>> import heliograph as hg
>>> db = hg.pir.Database({"phone": ["+41 1", "+41 2"], "city": ["Bern", "Basel"]}, key="phone")
>>> caller = db.client()
>>> question = caller.ask("+41 1")
>>> reply = db.answer(question.to_bytes())
"""

from heliograph.pir.keyword import Database, LookupClient, Question

__all__ = ["Database", "LookupClient", "Question"]
