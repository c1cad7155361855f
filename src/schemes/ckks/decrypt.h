// What both decryptions share.
#pragma once

#include <functional>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// Throws RoomError unless this process vouches for bounds by which all values fit their modulus.
void require_vouched(const CiphertextData& x);
/// `disturb` (or null) sees each stretch's coefficients before they are decoded.
Values decrypted(const SecretKeyData& key, const CiphertextData& x, const Progress& progress, Checked checked,
                 const std::function<void(std::span<double>)>& disturb);

}  // namespace heliograph::ckks
