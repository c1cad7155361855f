#include "circuits/boolean/products.h"

#include <algorithm>

namespace heliograph::circuits::boolean {

namespace {

constexpr std::size_t kSmall = 8;  // width below which karatsuba's additions cost more than they save

Word slice(const Word& a, std::size_t from, std::size_t to) {
  from = std::min(from, a.size());
  to = std::min(to, a.size());
  return {a.begin() + static_cast<std::ptrdiff_t>(from), a.begin() + static_cast<std::ptrdiff_t>(to)};
}

}  // namespace

void Products::partial(Columns& columns, const Word& a, const Word& b, std::size_t at) {
  for (std::size_t j = 0; j < b.size(); ++j) {
    Word row;
    for (std::size_t i = 0; i < a.size() && at + i + j < columns.width(); ++i) row.push_back(gates_.and_gate(a[i], b[j]));
    columns.add(gates_, row, at + j);
  }
}

void Products::booth(Columns& columns, const Word& a, const Word& b, std::size_t at) {
  // Digit r of b is b[2r - 1] + b[2r] - 2 b[2r + 1]: its magnitude is 0, 1 or 2, its sign the last bit.
  const Bit no = gates_.constant(false);
  auto bit = [&no](const Word& x, std::size_t i) { return i < x.size() ? x[i] : no; };
  for (std::size_t low = 0; at + low < columns.width(); low += 2) {
    const Bit below = low == 0 ? no : bit(b, low - 1), middle = bit(b, low), minus = bit(b, low + 1);
    const Bit one = gates_.xor_gate(below, middle);
    // the digit's magnitude is 2 if only `minus` is set, or if `below` and `middle` are set and `minus` is not
    const Bit two = gates_.function({minus, middle, below}, {false, true, false, false, false, false, true, false});
    Word row;
    for (std::size_t i = 0; at + low + i < columns.width(); ++i) {
      Bit size = gates_.and_gate(one, bit(a, i));
      if (i > 0) {
        // `one` and `two` are never both true
        const Bit twice = gates_.and_gate(two, a[i - 1]);
        size = size + twice - no;
      }
      row.push_back(gates_.xor_gate(size, minus));
    }
    columns.add(gates_, row, at + low);
    columns.add(gates_, {minus}, at + low);
  }
}

Word Products::multiply(const Word& a, const Word& b, std::size_t width, Product method, Carry how, bool free) {
  if (method == Product::tree) return tree(a, b, width, how, free);
  Columns columns(width);
  if (method == Product::booth && a.size() >= width && b.size() >= width) {
    booth(columns, a, b, 0);
  } else if (method == Product::karatsuba) {
    karatsuba(columns, a, b, 0, how);
  } else {
    partial(columns, a, b, 0);
  }
  return adders_.total(std::move(columns), how, free);
}

Word Products::tree(const Word& a, const Word& b, std::size_t width, Carry how, bool free) {
  // A row is a shifted word: `bits`, from weight 2^at on.
  struct Row {
    std::size_t at;
    Word bits;
  };
  std::vector<Row> rows;
  for (std::size_t j = 0; j < std::min(b.size(), width); ++j) {
    Row row{j, {}};
    for (std::size_t i = 0; i < a.size() && i + j < width; ++i) row.bits.push_back(gates_.and_gate(a[i], b[j]));
    rows.push_back(std::move(row));
  }
  const Bit zero = gates_.constant(false);
  while (rows.size() > 1) {
    std::vector<Row> next;
    for (std::size_t r = 0; r + 1 < rows.size(); r += 2) {
      const Row &low = rows[r], &high = rows[r + 1];
      const std::size_t shift = high.at - low.at;
      const std::size_t top = std::max(low.bits.size(), shift + high.bits.size());
      Word x = slice(low.bits, shift, low.bits.size()), y = high.bits;
      const std::size_t size = top - shift;
      x.resize(size, zero);
      y.resize(size, zero);
      const bool grows = low.at + top < width;
      const Word sum = adders_.add(x, y, zero, how, free && rows.size() == 2, grows);
      Row both{low.at, slice(low.bits, 0, shift)};
      both.bits.resize(shift, zero);
      both.bits.insert(both.bits.end(), sum.begin(), sum.end());
      next.push_back(std::move(both));
    }
    if (rows.size() % 2 == 1) next.push_back(std::move(rows.back()));
    rows = std::move(next);
  }
  rows[0].bits.resize(width, zero);
  return rows[0].bits;
}

void Products::karatsuba(Columns& columns, const Word& a, const Word& b, std::size_t at, Carry how) {
  const std::size_t size = std::max(a.size(), b.size()), half = (size + 1) / 2;
  if (at >= columns.width()) return;
  if (std::min(a.size(), b.size()) <= std::max(kSmall, half)) return partial(columns, a, b, at);
  const Word a0 = slice(a, 0, half), a1 = slice(a, half, size), b0 = slice(b, 0, half), b1 = slice(b, half, size);
  if (columns.width() - at <= 2 * half) {
    // The product of the upper halves is dropped, so karatsuba's sums would save nothing.
    karatsuba(columns, a0, b0, at, how);
    karatsuba(columns, a0, b1, at + half, how);
    karatsuba(columns, a1, b0, at + half, how);
    return;
  }
  auto product = [&](const Word& x, const Word& y) {
    return multiply(x, y, x.size() + y.size(), Product::karatsuba, how, false);
  };
  auto halves = [&](const Word& x0, Word x1) {
    x1.resize(x0.size(), gates_.constant(false));
    return adders_.add(x0, x1, gates_.constant(false), how, false, true);
  };
  const Word low = product(a0, b0), high = product(a1, b1), middle = product(halves(a0, a1), halves(b0, b1));
  columns.add(gates_, low, at);
  columns.add(gates_, high, at + 2 * half);
  columns.add(gates_, middle, at + half);
  columns.subtract(gates_, low, at + half);
  columns.subtract(gates_, high, at + half);
}

Word Products::multiply_clear(const Word& a, std::uint64_t factor, std::size_t width, Carry how) {
  const std::uint64_t mask = width < 64 ? (std::uint64_t{1} << width) - 1 : ~std::uint64_t{0};
  factor &= mask;
  Columns columns(width);
  for (std::size_t at = 0; factor != 0 && at < width; ++at, factor >>= 1) {
    if ((factor & 1) == 0) continue;
    // A run of ones in the factor is the difference of two powers of two. The power above the top bit is 0 modulo 2^width.
    if ((factor & 3) == 3 && at + 1 < width) {
      columns.subtract(gates_, a, at);
      factor += 1;
      if (factor == 0) break;  // only for the factor 2^64 - 1
    } else {
      columns.add(gates_, a, at);
    }
  }
  return adders_.total(std::move(columns), how, true);
}

}  // namespace heliograph::circuits::boolean
