"""Nearest neighbours: a server scores its clear vectors with a client's encrypted vector. docs/query.md.

The examples of the functions continue these lines.

>>> import numpy as np
>>> import heliograph as hg
>>> index = hg.knn.Vectors(np.array([[1, 2, 0], [0, 0, -3], [2, 2, 1], [-4, 1, 1]], np.int8))
>>> client = hg.knn.VectorClient(index.layout)
>>> query = hg.Server(client.evaluation_keys()).bind(client.encrypt(np.array([1, 1, 1], np.int8)))
>>> scores = index.scores(query)
>>> found = client.nearest(scores, k=2)
"""

from heliograph.knn.vectors import Neighbours, Scores, VectorClient, VectorLayout, Vectors

__all__ = ["Neighbours", "Scores", "VectorClient", "VectorLayout", "Vectors"]
