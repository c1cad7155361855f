// Code that decryption and decryption for publication share.
#pragma once

#include <functional>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// Throws RoomError unless trusted bounds show that all values fit their modulus.
void require_vouched(const CiphertextData& x);
/// Decrypts in stretches. `disturb`: null, or a function that may change the coefficients of each stretch of items before
/// decoding.
Values decrypted(const SecretKeyData& key, const CiphertextData& x, Checked checked,
                 const std::function<void(std::span<double>)>& disturb);

}  // namespace heliograph::ckks
