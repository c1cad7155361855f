"""Measurements of a service."""
