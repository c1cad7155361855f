// TFHE parameter set for tests.
#pragma once

#include "heliograph/tfhe.h"

namespace heliograph::test {

/// Returns a small, insecure, fast set for booleans (no message bits) or digits; tests change the fields that they test.
inline tfhe::Spec small_tfhe(unsigned message_bits = 0) {
  return {.name = "small",
          .n = 48,
          .k = 1,
          .degree = message_bits ? 1024u : 256u,
          .lwe_noise = {false, -22},
          .glwe_noise = {false, -40},
          .bootstrap_log_base = 18,
          .bootstrap_levels = 1,
          .switch_log_base = 4,
          .switch_levels = 4,
          .group = 2,
          .message_bits = message_bits,
          .carry_bits = message_bits,
          .norm = message_bits ? 17u : 3u,
          .insecure = true};
}

}  // namespace heliograph::test
