#include "schemes/tfhe/encoding.h"

#include <bit>

namespace heliograph::tfhe {

namespace {

using u64 = std::uint64_t;

unsigned bits_a_wire(const Spec& spec) { return spec.message_bits ? spec.message_bits : 1; }

// Phases and values are secret, so this code does not branch on them.

/// Sign-extends the low `bits` bits if the type is signed.
u64 extended(const Type& type, u64 value) {
  if (!type.is_signed || type.bits == 64) return value;
  return value | (u64{0} - (value >> (type.bits - 1) & 1)) << type.bits;
}

/// Returns the nearest multiple of the unit, modulo one turn.
u64 digit_of(const Spec& spec, u64 phase) {
  const u64 unit = unit_of(spec);
  return (phase + unit / 2) >> std::countr_zero(unit);
}

}  // namespace

u64 unit_of(const Spec& spec) {
  return spec.message_bits == 0 ? u64{1} << 61 : u64{1} << (63 - spec.message_bits - spec.carry_bits);
}

std::size_t wires_of(const Spec& spec, const Type& type) {
  if (type.boolean) return 1;
  const unsigned each = bits_a_wire(spec);
  if (type.bits == 0 || type.bits > 64 || type.bits % each != 0) {
    std::string text = type.text() + " does not fit this set: its integers must have ";
    text += each == 1 ? "1 to 64 bits" : "a multiple of " + std::to_string(each) + " bits, up to 64";
    throw DtypeError(text);
  }
  return type.bits / each;
}

void encode(const Spec& spec, const Type& type, u64 value, u64* out) {
  const u64 unit = unit_of(spec);
  const unsigned each = bits_a_wire(spec);
  const std::size_t wires = wires_of(spec, type);
  for (std::size_t w = 0; w < wires; ++w) {
    const u64 digit = type.boolean ? (value & 1) : (value >> (w * each)) & ((u64{1} << each) - 1);
    out[w] = spec.message_bits == 0 ? (2 * digit - 1) * unit : digit * unit;
  }
}

u64 decode(const Spec& spec, const Type& type, const u64* phases) {
  const std::size_t wires = wires_of(spec, type);
  if (spec.message_bits == 0) {
    u64 value = 0;
    for (std::size_t w = 0; w < wires; ++w) value |= (~phases[w] >> 63) << w;
    return type.boolean ? value : extended(type, value);
  }
  if (type.boolean) return digit_of(spec, phases[0]) & 1;
  u64 value = 0;
  for (std::size_t w = 0; w < wires; ++w) value += digit_of(spec, phases[w]) << (w * spec.message_bits);
  if (type.bits == 64) return value;
  return extended(type, value & ((u64{1} << type.bits) - 1));
}

std::int64_t error_of(const Spec& spec, u64 phase) {
  const u64 unit = unit_of(spec);
  if (spec.message_bits == 0) return static_cast<std::int64_t>(phase - (1 - 2 * (phase >> 63)) * unit);
  return static_cast<std::int64_t>(phase - digit_of(spec, phase) * unit);
}

}  // namespace heliograph::tfhe
