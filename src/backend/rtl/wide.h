// Access to wide ports of a Verilated module: arrays of bit fields of equal width, the first field in the lowest bits.
#pragma once

#include <cstdint>
#include <type_traits>

namespace heliograph::rtl {

inline constexpr int kWordBits = 30;  // bits of a residue on the card

/// Returns the port's 32-bit word i. Verilator represents ports of up to 64 bits as integers, and wider ports as arrays.
template <class Port>
std::uint32_t port_word(const Port& port, std::size_t i) {
  if constexpr (std::is_integral_v<Port>)
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(port) >> (32 * i));
  else
    return port[i];
}

template <class Port>
void set_port_word(Port& port, std::size_t i, std::uint32_t value) {
  if constexpr (std::is_integral_v<Port>) {
    const std::uint64_t mask = std::uint64_t{0xffffffff} << (32 * i);
    port = static_cast<Port>((static_cast<std::uint64_t>(port) & ~mask) | std::uint64_t{value} << (32 * i));
  } else {
    port[i] = value;
  }
}

/// Returns bit field `index` of the port, in which each field has `bits` bits.
template <class Port>
std::uint64_t field(const Port& port, std::size_t index, int bits = kWordBits) {
  std::uint64_t value = 0;
  for (int b = 0; b < bits; ++b) {
    const std::size_t at = index * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
    value |= static_cast<std::uint64_t>(port_word(port, at / 32) >> (at % 32) & 1) << b;
  }
  return value;
}

template <class Port>
void set_field(Port& port, std::size_t index, std::uint64_t value, int bits = kWordBits) {
  for (int b = 0; b < bits; ++b) {
    const std::size_t at = index * static_cast<std::size_t>(bits) + static_cast<std::size_t>(b);
    const std::uint32_t bit = std::uint32_t{1} << (at % 32), word = port_word(port, at / 32);
    set_port_word(port, at / 32, value >> b & 1 ? word | bit : word & ~bit);
  }
}

}  // namespace heliograph::rtl
