"""Errors, kinds of jobs, kinds of uploads and TLS files of a service and its clients."""
