// The cycle model: when the card (rtl/src/hg_card.sv) begins and ends each descriptor of a list, where nothing stalls its buses.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/rtl/card.h"
#include "backend/rtl/descriptors.h"

namespace heliograph::backend::rtl {

using heliograph::rtl::Descriptor;
using heliograph::rtl::Shape;
using math::u64;

enum Unit : unsigned char { kNtt, kPointwise, kPermute, kConvert, kLoad, kStore };
inline constexpr int kUnits = 6;
inline constexpr std::array<const char*, kUnits> kUnitNames = {"ntt", "pointwise", "permute", "convert", "load", "store"};

/// An instruction's time in its unit: the cycles [begin, end).
struct Span {
  Unit unit;
  u64 begin, end;
};

class Timing {
 public:
  explicit Timing(const Shape& shape) : shape_(shape) {}

  u64 now() const { return now_; }
  /// Whether a descriptor that waits now begins now.
  bool can_issue(const Descriptor& d) const;
  /// It does. The next one may a cycle later.
  void issue(const Descriptor& d);
  /// On to the next cycle in which anything changes.
  void advance();
  /// The same, but not beyond a cycle.
  void advance_to(u64 cycle);
  bool idle() const;
  /// A fence: when all has ended.
  void drain();
  /// Cycles in which a unit had work.
  u64 busy(Unit unit) const { return busy_[unit]; }
  /// What was issued, in that order; what has not ended yet ends at 0.
  const std::vector<Span>& spans() const { return spans_; }

  // What a scheduler asks.
  /// Whether a unit would take an instruction now.
  bool ready(Unit unit) const { return now_ >= state_[unit].ready && state_[unit].count < 2; }
  /// Slots that are being written, and those that are being written or read; tables and sets behind them.
  struct Bits {
    u64 slots = 0;
    std::uint32_t others = 0;  // tables, then sets
    bool operator&(const Bits& o) const { return (slots & o.slots) != 0 || (others & o.others) != 0; }
    void operator|=(const Bits& o) { slots |= o.slots, others |= o.others; }
  };
  Bits writing() const;
  Bits in_use() const;
  /// Banks that units other than this one read, and write or are about to.
  unsigned read_banks(Unit except) const;
  unsigned write_banks(Unit except) const;
  unsigned banks(u64 slots) const;

  /// What a descriptor reads and writes.
  struct Needs {
    Unit unit;
    Bits reads, writes;
    bool fence = false;
  };
  Needs needs(const Descriptor& d) const;

 private:
  struct Running {
    Bits reads, writes;
    u64 read_done = 0, done = 0;  // the last cycle with it
    bool claims = false;          // its write banks; an NTT's later
    u64 want = 0, stage = 0;      // an NTT's: from when on it wants them, cycles of its last stage
    std::size_t span = 0;
  };
  struct UnitState {
    std::array<Running, 2> running;
    int count = 0;
    u64 ready = 0;  // the first cycle in which it takes another
  };
  struct Cycles {
    u64 read_done, done, ready;
  };
  Cycles cycles_of(const Needs& needs, const Descriptor& d) const;
  int rows(int log_n) const { return 1 << (log_n - shape_.log_butterflies()); }
  int gap(int log_n) const;
  /// Whether instructions before it still need the bus, for what waits for them (hg_dispatch).
  bool bus_busy() const { return state_[kLoad].count + state_[kStore].count > 0; }
  void end_until_now();
  void claim_at(u64 cycle);

  Shape shape_;
  u64 now_ = 0;
  std::array<UnitState, kUnits> state_;
  std::array<u64, kUnits> busy_{};
  std::vector<Span> spans_;
};

/// Cycles of a list, from the first descriptor's to the last one's end.
struct Forecast {
  u64 cycles = 0;
  std::array<u64, kUnits> busy{};
  std::vector<Span> spans;  // from the first descriptor's cycle on
};
Forecast forecast(const Shape& shape, const std::vector<Descriptor>& list);

}  // namespace heliograph::backend::rtl
