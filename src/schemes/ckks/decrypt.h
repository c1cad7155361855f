// What both decryptions share.
#pragma once

#include <functional>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// `disturb` (or null) sees each stretch's coefficients before they are decoded.
Values decrypted(const SecretKeyData& key, const CiphertextData& x, const Progress& progress,
                 const std::function<void(std::vector<double>&)>& disturb);

}  // namespace heliograph::ckks
