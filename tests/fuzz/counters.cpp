// Counters of executed blocks for libFuzzer in programs compiled by g++. g++ calls a function at each block, but libFuzzer
// is made for clang, which increments a counter.
#include <cstddef>
#include <cstdint>

extern "C" {
void __sanitizer_cov_8bit_counters_init(std::uint8_t* start, std::uint8_t* stop);
void __sanitizer_cov_trace_pc();
void __sanitizer_cov_trace_cmpf(float, float);
void __sanitizer_cov_trace_cmpd(double, double);
}

namespace {

constexpr int kBits = 16;
alignas(64) std::uint8_t counters[std::size_t{1} << kBits];
[[maybe_unused]] const bool registered = [] {
  __sanitizer_cov_8bit_counters_init(counters, counters + sizeof counters);
  return true;
}();

}  // namespace

/// Counts the block that makes this call. Few blocks share a counter, because the product spreads the addresses.
__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const auto block = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[block * 0x9e3779b97f4a7c15 >> (64 - kBits)];
}

// libFuzzer learns from compared integers; g++ additionally reports comparisons of floating-point numbers.
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
