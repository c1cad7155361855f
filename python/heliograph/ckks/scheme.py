"""CKKS, as the shared classes see it."""

from heliograph._schemes import Bare, described_scheme

CKKS = described_scheme(
    "ckks",
    "CKKS",
    {
        "conv2d": "hg.matmul with axis=0, of windows side by side",
        "conv2d_square_pool": "hg.matmul with axis=0, hg.square and hg.sum",
        "join_moduli": "nothing to join: there is no plaintext modulus",
        "rotate_columns": "hg.ckks.rotate",
        "rotate_rows": "hg.ckks.rotate",
        "shrink": "hg.ckks.lower",
        "split_moduli": "nothing to split: there is no plaintext modulus",
        "sum_pool2d": "hg.sum, of windows reshaped to axes",
    },
    Bare("evaluation-keys", {"rotations": {}}, {}),
)
