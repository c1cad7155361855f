"""Readers of models: each makes a `Graph` of ONNX operators with fixed shapes."""
