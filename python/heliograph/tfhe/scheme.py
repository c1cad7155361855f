"""Description of TFHE for the shared classes."""

from heliograph import _core
from heliograph._common.schemes import described_scheme

TFHE = described_scheme(
    "tfhe",
    "TFHE",
    _core.tfhe,
    {
        "conv2d": "use hg.tfhe.matmul on windows side by side",
        "conv2d_square_pool": "use hg.tfhe.matmul, hg.square and hg.tfhe.sum",
        "encode": "its operators take integers, and hg.tfhe.trivial makes tensors of integers",
        "join_moduli": "it has no plaintext modulus",
        "public_key": "encrypt with the secret key, whose ciphertexts are small",
        "relinearize": "results need no relinearization",
        "rescale": "exact integers have no scale",
        "rotate_columns": "use hg.concatenate on slices",
        "rotate_rows": "use hg.concatenate on slices; hg.tfhe.rotate_left rotates the bits of integers",
        "shrink": "all its ciphertexts have one size",
        "split_moduli": "it has no plaintext modulus",
        "sum_pool2d": "use hg.tfhe.sum on windows reshaped to axes",
    },
    {"ciphertext": _core.tfhe.Ciphertext, "evaluation-keys": _core.tfhe.EvaluationKeys},
)
