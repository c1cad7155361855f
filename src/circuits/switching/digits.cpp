#include <cmath>

#include "circuits/switching/context.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph::switching {

namespace {

using tfhe::Circuit;
using tfhe::Linear;

/// Returns 2^-bits of a turn as a torus word.
constexpr u64 turns(unsigned bits) { return u64{1} << (64 - bits); }

class Builder {
 public:
  Builder(const tfhe::Spec& spec, unsigned bits)
      : message_(spec.message_bits),
        digits_(bits / spec.message_bits),
        shift_(spec.carry_bits - spec.message_bits),
        unit_(tfhe::unit_of(spec)) {}

  std::shared_ptr<const Circuit> run() {
    circuit_.inputs = circuit_.wires = 1;
    circuit_.tables.push_back({{turns(2)}});  // table of the sign: a quarter turn with the sign of the phase
    add_table([](u64 i) { return i; });
    const u64 half = u64{1} << (message_ - 1), mask = 2 * half - 1;
    add_table([&](u64 i) { return (i - half) & mask; });  // i - half is the signed highest digit
    for (unsigned k = 0; k < digits_; ++k) read(k);
    return std::make_shared<const Circuit>(std::move(circuit_));
  }

 private:
  /// Adds the bootstrap that reads a digit; the middle of its table is 0.
  template <class F>
  void add_table(F digit) {
    tfhe::Table table;
    for (u64 i = 0; i <= most(); ++i) table.values.push_back(digit(i) * unit_ - middle());
    circuit_.tables.push_back(std::move(table));
  }
  u64 most() const { return (u64{1} << message_) - 1; }
  u64 middle() const { return most() * (unit_ / 2); }

  std::uint32_t bootstrap(const Linear& input, std::uint32_t table) {
    const std::uint32_t wire = circuit_.wires++;
    circuit_.layers.push_back({{.input = input, .table = table, .outputs = 1, .first_output = wire}});
    return wire;
  }

  void read(unsigned k) {
    // The digit k has the unit 2^-(m + 1) turns; half of this unit is added for rounding.
    Linear phase{{{0, std::int32_t{1} << (64 - kTurnBits + message_ * (digits_ - 1 - k))}}, turns(message_ + 2)};
    if (k > 0) {
      phase.terms.push_back({digit_, -(std::int32_t{1} << shift_)});
      phase.constant -= middle() << shift_;
    }
    if (k > 1) phase.constant -= turns(2 * message_ + 2);
    if (k + 1 < digits_) {
      const std::uint32_t above = bootstrap(phase, 0);
      phase.terms.push_back({above, 1});
      phase.constant -= turns(2);
      digit_ = bootstrap(phase, 1);
    } else {
      phase.constant += turns(2);  // the highest digit is signed
      digit_ = bootstrap(phase, 2);
    }
    circuit_.outputs.push_back({{{digit_, 1}}, middle()});
  }

  const unsigned message_, digits_, shift_;
  const u64 unit_;
  Circuit circuit_;
  std::uint32_t digit_ = 0;  // wire of the last digit
};

}  // namespace

std::shared_ptr<const Circuit> Context::reading(unsigned bits) const {
  const std::lock_guard lock(mutex_);
  auto& made = reading_[bits];
  if (!made) made = digits_circuit(tfhe_->spec(), bits);
  return made;
}

std::shared_ptr<const Circuit> Context::scaling(std::size_t wires, std::int32_t factor) const {
  const std::lock_guard lock(mutex_);
  auto& made = scaling_[{wires, factor}];
  if (made) return made;
  Circuit c;
  c.inputs = c.wires = static_cast<std::uint32_t>(wires);
  for (std::uint32_t w = 0; w < c.wires; ++w) c.outputs.push_back({{{w, factor}}, 0});
  made = std::make_shared<const Circuit>(std::move(c));
  return made;
}

std::shared_ptr<const Circuit> digits_circuit(const tfhe::Spec& spec, unsigned bits) { return Builder(spec, bits).run(); }

}  // namespace heliograph::switching
