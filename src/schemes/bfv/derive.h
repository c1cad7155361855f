// Building one ciphertext tensor from another.
#pragma once

#include "schemes/bfv/context.h"

namespace heliograph::bfv {

/// Everything but the parts and the seeds.
CiphertextData derived(const CiphertextData& a);
Ciphertext finish(CiphertextData data);

}  // namespace heliograph::bfv
