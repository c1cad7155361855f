// Code that decryption and decryption for publication share.
#pragma once

#include <functional>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// Throws RoomError unless trusted bounds show that all values fit their modulus.
void require_vouched(const CiphertextData& x);
/// Decrypts in stretches. `disturb` (or null) may change each stretch's coefficients before they are decoded.
Values decrypted(const SecretKeyData& key, const CiphertextData& x, Checked checked,
                 const std::function<void(std::span<double>)>& disturb);

}  // namespace heliograph::ckks
