// The driver's interface to the card: registers, memory, an interrupt. A simulation or a board implements this interface.
#pragma once

#include <cstdint>
#include <span>

namespace heliograph::rtl {

struct Shape {
  int butterflies = 8;  // number of butterflies, and of lanes (words per row)
  int log_n = 14;       // log2 of the largest degree
  int banks = 4, slots = 32, tables = 2;
  int targets = 8, sources = 16, sets = 8;  // limits of a conversion; number of constant sets
  int coefficients = 4;                     // coefficients per conversion step

  int log_butterflies() const {
    int log = 0;
    while (1 << log < butterflies) ++log;
    return log;
  }
  int beat_words() const { return 2 * butterflies; }
  int beat_bytes() const { return 4 * beat_words(); }
};

/// Addresses of registers (rtl/src/hg_registers.sv).
namespace reg {
inline constexpr unsigned kMagic = 0x00, kShape = 0x08, kShape2 = 0x0c, kControl = 0x10, kStatus = 0x14, kBase = 0x18,
                          kBaseHigh = 0x1c, kLogSize = 0x20, kTail = 0x24, kHead = 0x28, kInterrupt = 0x30, kCounters = 0x40;
}

/// Counters, in the order of their registers.
enum class Counter { cycles, waited, beats_read, beats_written, ntt, pointwise, permute, convert, load, store };
inline constexpr int kCounters = 10;

class Card {
 public:
  virtual ~Card() = default;
  virtual std::uint32_t read(unsigned address) = 0;
  virtual void write(unsigned address, std::uint32_t value) = 0;
  virtual std::span<std::byte> memory() = 0;
  /// Runs the card until its interrupt, for at most `cycles` cycles; returns false if there was no interrupt.
  virtual bool run(std::uint64_t cycles) = 0;
  /// Returns the number of bus handshakes that the simulation delayed.
  virtual std::uint64_t stalled() const { return 0; }

  std::uint64_t counter(Counter c) {
    const unsigned at = reg::kCounters + 8 * static_cast<unsigned>(c);
    const std::uint64_t low = read(at);
    return low | std::uint64_t{read(at + 4)} << 32;
  }
  Shape shape() {
    const std::uint32_t one = read(reg::kShape), two = read(reg::kShape2);
    const auto field = [](std::uint32_t word, int from, int bits) {
      return static_cast<int>(word >> from & ((1u << bits) - 1));
    };
    return {.butterflies = field(one, 8, 8),
            .log_n = field(one, 0, 8),
            .banks = field(one, 24, 8),
            .slots = field(two, 0, 8) + 1,
            .tables = field(two, 8, 8),
            .targets = field(two, 20, 4),
            .sources = field(two, 24, 4) + 1,
            .sets = field(two, 28, 4) + 1,
            .coefficients = field(two, 16, 4)};
  }
};

}  // namespace heliograph::rtl
