"""TFHE, as the shared classes see it."""

from heliograph._schemes import Bare, described_scheme

TFHE = described_scheme(
    "tfhe",
    "TFHE",
    {
        "conv2d": "hg.tfhe.matmul, of windows side by side",
        "conv2d_square_pool": "hg.tfhe.matmul, hg.square and hg.tfhe.sum",
        "encode": "operators, which take integers, and hg.tfhe.trivial, which makes tensors of them",
        "join_moduli": "nothing to join: there is no plaintext modulus",
        "public_key": "nothing like it: a secret key's ciphertexts are small",
        "relinearize": "nothing to relinearize: results are ready to compute on",
        "rescale": "nothing to rescale: exact integers have no scale",
        "rotate_columns": "concatenate of slices",
        "rotate_rows": "concatenate of slices; rotate_left turns the bits of integers",
        "shrink": "nothing to shrink: a result has one size",
        "split_moduli": "nothing to split: there is no plaintext modulus",
        "sum_pool2d": "hg.tfhe.sum, of windows reshaped to axes",
    },
    Bare("ciphertext", {"type": "bool", "shape": [0], "seed": "0" * 64}, {"words": ("<u8", (0, 1, 1))}),
)
