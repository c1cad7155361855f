// The cycle model: predicts begin and end of each descriptor of a list on the card (rtl/src/hg_card.sv), if its buses
// never stall.
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

/// The cycles [begin, end) in which a unit executes an instruction.
struct Span {
  Unit unit;
  u64 begin, end;
};

class Timing {
 public:
  explicit Timing(const Shape& shape) : shape_(shape) {}

  u64 now() const { return now_; }
  bool can_issue(const Descriptor& d) const;
  /// Issues a descriptor in this cycle; the next descriptor may be issued one cycle later.
  void issue(const Descriptor& d);
  /// Advances to the next cycle in which the state changes.
  void advance();
  void advance_to(u64 cycle);
  bool idle() const;
  /// Advances until all instructions have ended (a fence).
  void drain();
  u64 busy(Unit unit) const { return busy_[unit]; }
  /// Returns the issued instructions in order; `end` is 0 for instructions that have not ended.
  const std::vector<Span>& spans() const { return spans_; }

  // Queries for the scheduler.
  /// Returns whether a unit can accept an instruction now.
  bool ready(Unit unit) const { return now_ >= state_[unit].ready && state_[unit].count < 2; }
  /// Slots, twiddle tables and constant sets: writing() returns the ones that are written now, in_use() also the ones that
  /// are read.
  struct Bits {
    u64 slots = 0;
    std::uint32_t others = 0;  // bits of the tables, then of the sets
    bool operator&(const Bits& o) const { return (slots & o.slots) != 0 || (others & o.others) != 0; }
    void operator|=(const Bits& o) { slots |= o.slots, others |= o.others; }
  };
  Bits writing() const;
  Bits in_use() const;
  /// Return the banks that other units read; the banks that other units write now or later.
  unsigned read_banks(Unit except) const;
  unsigned write_banks(Unit except) const;
  unsigned banks(u64 slots) const;

  struct Needs {
    Unit unit;
    Bits reads, writes;
    bool fence = false;
  };
  Needs needs(const Descriptor& d) const;

 private:
  struct Running {
    Bits reads, writes;
    u64 read_done = 0, done = 0;  // last cycle in which the instruction reads; last cycle of the instruction
    bool claims = false;          // whether the step occupies its write banks already; an NTT occupies them later
    u64 want = 0, stage = 0;      // NTT: first cycle that needs its write banks; number of cycles of its last stage
    std::size_t span = 0;
  };
  struct UnitState {
    std::array<Running, 2> running;
    int count = 0;
    u64 ready = 0;  // first cycle in which the unit can accept another instruction
  };
  struct Cycles {
    u64 read_done, done, ready;
  };
  Cycles cycles_of(const Needs& needs, const Descriptor& d) const;
  int rows(int log_n) const { return 1 << (log_n - shape_.log_butterflies()); }
  int gap(int log_n) const;
  /// Returns whether earlier instructions use the bus; descriptors with the flag kOrdered wait for them (hg_dispatch).
  bool bus_busy() const { return state_[kLoad].count + state_[kStore].count > 0; }
  /// Returns the banks of the slots that other units' instructions hold; `held(unit, instruction)` returns an instruction's
  /// slots.
  template <class Held>
  unsigned banks_beside(Unit except, Held held) const;
  /// Returns the next cycle in which the state changes, or `last` if that is earlier.
  u64 next_event(u64 last) const;
  void end_until_now();
  void claim_at(u64 cycle);

  Shape shape_;
  u64 now_ = 0;
  std::array<UnitState, kUnits> state_;
  std::array<u64, kUnits> busy_{};
  std::vector<Span> spans_;
};

/// Predicted cycles of a list, from the issue of the first descriptor to the end of the last.
struct Forecast {
  u64 cycles = 0;
  std::array<u64, kUnits> busy{};
  std::vector<Span> spans;  // cycles of the instructions, relative to the issue of the first descriptor
};
Forecast forecast(const Shape& shape, const std::vector<Descriptor>& list);

}  // namespace heliograph::backend::rtl
