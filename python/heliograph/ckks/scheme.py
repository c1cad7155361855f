"""Description of CKKS for the shared classes."""

from heliograph import _core
from heliograph._common.schemes import described_scheme

CKKS = described_scheme(
    "ckks",
    "CKKS",
    _core.ckks,
    {
        "conv2d": "use hg.matmul with axis=0 on windows side by side",
        "conv2d_square_pool": "use hg.matmul with axis=0, hg.square and hg.sum",
        "join_moduli": "it has no plaintext modulus",
        "rotate_columns": "use hg.ckks.rotate",
        "rotate_rows": "use hg.ckks.rotate",
        "shrink": "use hg.ckks.lower",
        "split_moduli": "it has no plaintext modulus",
        "sum_pool2d": "use hg.sum on windows reshaped to axes",
    },
    {"ciphertext": _core.ckks.Ciphertext, "public-key": _core.ckks.PublicKey, "evaluation-keys": _core.ckks.EvaluationKeys},
)
