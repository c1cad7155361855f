"""Serves model bundles over a network (docs/serving.md). `hg.Client` is the client; ``heliograph serve`` starts a service.

>>> import numpy as np
>>> import heliograph as hg
"""

from heliograph.serving.local_page import local_page
from heliograph.serving.local_service import local

__all__ = ["local", "local_page"]
