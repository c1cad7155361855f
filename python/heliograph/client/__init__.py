"""The client of a service (docs/serving.md). It imports nothing of the service; both use `heliograph._common.service`."""

from heliograph.client.client import Client

__all__ = ["Client"]
