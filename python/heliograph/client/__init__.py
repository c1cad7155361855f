"""The client of a service (docs/serving.md). The client imports nothing of the service; client and service use
`heliograph._common.service`."""

from heliograph.client.client import Client

__all__ = ["Client"]
