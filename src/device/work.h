// What a call takes, whatever performs it.
#pragma once

#include "device/call.h"

namespace heliograph::device {

/// Of one call or of several.
struct Count {
  u64 calls = 0;
  u64 bytes_read = 0, bytes_written = 0;  // a broadcast input once, an operand used twice in a call once
  u64 products = 0;                       // modular products; an NTT has n/2 log2 n a limb
  u64 butterflies = 0;                    // those among them that are in NTTs

  Count& operator+=(const Count& o) {
    calls += o.calls, bytes_read += o.bytes_read, bytes_written += o.bytes_written, products += o.products;
    butterflies += o.butterflies;
    return *this;
  }
};

/// A composite's is its expansion's, in as many calls.
Count work(const Call& call);
/// The bytes of its operands, each once: what a call moves at least whose own scratch never leaves a cache.
u64 operand_bytes(const Call& call);

}  // namespace heliograph::device
