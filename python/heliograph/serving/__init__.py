"""Serving sealed models over a network (docs/serving.md). `hg.Client` is the client; ``heliograph serve`` starts a service.

>>> import numpy as np
>>> import heliograph as hg
"""

from heliograph.serving.client import Client
from heliograph.serving.trying import local

__all__ = ["Client", "local"]
