// The work of a call, independent of the backend.
#pragma once

#include "device/call.h"

namespace heliograph::device {

struct Count {
  u64 calls = 0;
  u64 bytes_read = 0, bytes_written = 0;  // a broadcast input or repeated operand counts once per call
  u64 products = 0;                       // modular products; an NTT has n/2 log2 n per limb
  u64 butterflies = 0;                    // the products inside NTTs

  Count& operator+=(const Count& o) {
    calls += o.calls, bytes_read += o.bytes_read, bytes_written += o.bytes_written, products += o.products;
    butterflies += o.butterflies;
    return *this;
  }
};

/// Returns the work of a call; for a composite, the sum over its expansion.
Count work(const Call& call);
/// Returns the bytes of all operands, each counted once: the minimum memory traffic of a call whose scratch stays in a
/// cache.
u64 operand_bytes(const Call& call);

}  // namespace heliograph::device
