// What both decryptions share.
#pragma once

#include <functional>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// Throws RoomError where values, as far as they are known in that way, may have outgrown their modulus.
void require_room_for_values(const CiphertextData& x, Checked checked);
/// `disturb` (or null) sees each stretch's coefficients before they are decoded.
Values decrypted(const SecretKeyData& key, const CiphertextData& x, const Progress& progress, Checked checked,
                 const std::function<void(std::span<double>)>& disturb);

}  // namespace heliograph::ckks
