"""Recorded functions: programs, forecasts, traces, and the keys and bootstraps that they need."""
