// Shifts and rotations. Whole digits move without bootstraps; each bit of an encrypted amount takes one selection per digit.

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "circuits/digits/digits.h"

namespace heliograph::circuits {

Number Digits::move(Shift direction, const Number& a, unsigned digits, const Linear& fill) const {
  const std::size_t count = a.parts.size();
  const bool rotation = rotates(direction), left = is_left(direction);
  Number result{{}, a.type};
  for (std::size_t i = 0; i < count; ++i) {
    if (rotation) {
      result.parts.push_back(a.parts[(i + (left ? count - digits % count : digits)) % count]);
    } else if (left) {
      result.parts.push_back(i >= digits ? a.parts[i - digits] : units(0));
    } else {
      result.parts.push_back(i + digits < count ? a.parts[i + digits] : fill);
    }
  }
  return result;
}

Number Digits::shift_clear(Shift direction, const Number& a, unsigned amount) {
  require<InternalError>(amount < a.type.bits, "a shift amount must be below the width");
  const unsigned digits = amount / bits_, rest = amount % bits_;
  const std::size_t count = a.parts.size();
  const bool left = is_left(direction), right = direction == Shift::right;
  const Linear fill = right && (digits > 0) ? sign_fill(a) : units(0);
  const Number moved = move(direction, a, digits, fill);
  if (rest == 0) return moved;
  const unsigned mask = base_ - 1;
  Number result{{}, a.type};
  const Number next = move(direction, moved, 1, fill);
  for (std::size_t i = 0; i < count; ++i) {
    if (right && a.type.is_signed && i + digits + 1 >= count) {  // fill with the sign above the top digit
      const bool top = i + digits + 1 == count;
      result.parts.push_back(!top ? fill : apply(digit(a.parts.back()), [&](unsigned x) {
        const unsigned wide = x >= base_ / 2 ? x + (mask << bits_) : x;
        return static_cast<int>(wide >> rest & mask);
      }));
      continue;
    }
    result.parts.push_back(pair(digit(next.parts[i]), digit(moved.parts[i]), [&](unsigned other, unsigned own) {
      return static_cast<int>((left ? own << rest | other >> (bits_ - rest) : own >> rest | other << (bits_ - rest)) & mask);
    }));
  }
  return result;
}

Number Digits::shift(Shift direction, const Number& a, const Number& amount) {
  const unsigned width = a.type.bits;
  const bool rotation = rotates(direction), left = is_left(direction);
  const auto available = static_cast<unsigned>(amount.parts.size()) * bits_;
  const unsigned stages =
      rotation && !std::has_single_bit(width) ? available : std::min<unsigned>(available, std::bit_width(width - 1));
  const auto scale = static_cast<int>(flag_scale());
  auto amount_bit = [&](unsigned k) {
    std::vector<Function> bits;
    for (unsigned b = 0; b < bits_; ++b) {
      bits.push_back([b, scale](unsigned x) { return (x >> b & 1) != 0 ? scale : 0; });
    }
    return Value{apply(digit(amount.parts[k / bits_]), bits)[k % bits_], flag_scale()};
  };
  const Linear fill = direction == Shift::right ? sign_fill(a) : units(0);
  Number current = a;
  unsigned distance = 1;  // equals 2^k; for rotations, modulo the width
  for (unsigned k = 0; k < stages; ++k, distance = rotation ? distance * 2 % width : distance * 2) {
    if (distance % bits_ != 0) continue;  // the shift by one bit is last
    const Number calm = cleaned(current, (limit() - 1) / 2);
    const Number moved = move(direction, calm, distance / bits_, fill);
    const Value bit = amount_bit(k);
    for (std::size_t i = 0; i < calm.parts.size(); ++i) current.parts[i] = choose(bit, moved.parts[i], calm.parts[i]);
  }
  if (!rotation && !std::has_single_bit(width) && available > stages) {
    std::vector<Value> high;
    for (unsigned k = stages; k < available;) {
      const unsigned within = k % bits_;
      const Value d = digit(amount.parts[k / bits_]);
      high.push_back(within == 0 ? d
                                 : Value{apply(d, [within](unsigned x) { return static_cast<int>(x >> within); }),
                                         (base_ - 1) >> within});
      k += bits_ - within;
    }
    const Value all{any(std::move(high), 0, scale), flag_scale()};
    current = cleaned(current, (limit() - 1) / 2);
    for (Linear& p : current.parts) p = choose(all, fill, p);
  }
  if (bits_ == 1 || stages == 0) return cleaned(current);
  // Shifts by one bit inside digits of two bits. A bootstrap reads the digit, the incoming bit of the neighbour, and the
  // condition.
  current = cleaned(current, limit() - 2);
  const auto base = static_cast<int>(base_);
  const Value bit = amount_bit(0);
  std::vector<Linear> leaving;
  for (const Linear& p : current.parts) {
    leaving.push_back(apply(digit(p), [=](unsigned x) { return static_cast<int>(left ? x >> 1 : x & 1) * base; }));
  }
  const Linear sign = direction == Shift::right && a.type.is_signed
                          ? apply(digit(a.parts.back()), [=](unsigned x) { return static_cast<int>(x >> 1) * base; })
                          : units(0);
  const Number entering = move(direction, {leaving, a.type}, 1, sign);
  Number result{{}, a.type};
  for (std::size_t i = 0; i < current.parts.size(); ++i) {
    const Value all = add(add(digit(current.parts[i]), Value{entering.parts[i], base_}), bit);
    result.parts.push_back(apply(all, [left](unsigned x) {
      const unsigned own = x & 3, in = x >> 2 & 1;
      if (x < 8) return static_cast<int>(own);
      return static_cast<int>(left ? (own << 1 | in) & 3 : own >> 1 | in << 1);
    }));
  }
  return result;
}

}  // namespace heliograph::circuits
