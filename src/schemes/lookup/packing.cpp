// The precomputed part of packing: the digits of all key switches (parameters.h).
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "heliograph/interrupt.h"
#include "schemes/lookup/table.h"

namespace heliograph::lookup {

namespace {

using Words = std::vector<u64>;
using math::Reducer;

class Transforms {
 public:
  explicit Transforms(std::shared_ptr<Engine> engine, std::size_t count)
      : tensor_(std::move(engine), {count}, 1, kQ, Domain::coefficient) {}
  const RnsTensor& forward(const Words& words) { return through<device::ForwardNtt>(words); }
  const RnsTensor& inverse(const Words& words) { return through<device::InverseNtt>(words); }

 private:
  template <class Ntt>
  const RnsTensor& through(const Words& words) {
    ring::upload(tensor_, std::as_bytes(std::span(words)));
    Engine& e = *tensor_.engine();
    e.enqueue(Ntt{e.prepared(), kQ, tensor_.view(), tensor_.view()});
    return tensor_;
  }
  RnsTensor tensor_;
};

void download(const RnsTensor& from, Words& to) {
  from.engine()->download(from.view(), std::as_writable_bytes(std::span(to)));
}

Words transposed(const Words& square) {
  constexpr std::size_t kTile = 16;
  Words out(square.size());
  parallel_for(kDegree / kTile, square.size(), [&](std::size_t tile) {
    for (std::size_t j = 0; j < kDegree; j += kTile) {
      for (std::size_t i = tile * kTile; i < (tile + 1) * kTile; ++i) {
        for (std::size_t k = j; k < j + kTile; ++k) out[i * kDegree + k] = square[k * kDegree + i];
      }
    }
  });
  return out;
}

/// Returns A_t (parameters.h) of a pack's masks p_j for each t of `tables`, in the NTT domain. For each u, the
/// values of all p_j at psi^u form a polynomial in j. For u = e t, this polynomial's value at psi^e is the value of A_t at
/// psi^e.
Words automorphism_sums(const std::shared_ptr<Engine>& packing, std::span<const u32> hint, const std::vector<u32>& tables) {
  constexpr std::size_t kLine = 8;  // words per cache line
  const u64 q = packing_ring()->prime(0);
  const Reducer reduce(q);
  const Reducer::Factor part = reduce.factor(math::inverse_mod(kDegree, q));
  Words values(kDegree * kDegree);
  parallel_for(kDegree, values.size(), [&](std::size_t j) {
    for (std::size_t i = j * kDegree; i < (j + 1) * kDegree; ++i)
      values[i] = reduce.multiply(static_cast<u64>((u128{hint[i]} * q + (u64{1} << 31)) >> 32), part);
  });
  Transforms ntt(packing, kDegree);
  download(ntt.forward(values), values);
  values = transposed(values);
  download(ntt.forward(values), values);
  values = transposed(values);  // layout [e][u]
  Words sums(tables.size());
  parallel_for(kDegree / kLine, sums.size(), [&](std::size_t line) {
    for (std::size_t t = 0; t < tables.size(); t += kDegree) {
      for (std::size_t i = line * kLine; i < (line + 1) * kLine; ++i) sums[t + i] = values[i * kDegree + tables[t + i]];
    }
  });
  return sums;
}

/// Replaces each word by the residue of its digit round(x / 2^kDigitShift), x centred.
void take_digits(Words& words) {
  const u64 q = packing_ring()->prime(0);
  for (u64& x : words) {
    const math::i64 nearest = static_cast<math::i64>(x > q / 2 ? x - q : x);
    const math::i64 digit = (nearest + (math::i64{1} << (kDigitShift - 1))) >> kDigitShift;
    x = digit < 0 ? static_cast<u64>(digit + static_cast<math::i64>(q)) : static_cast<u64>(digit);
  }
}

}  // namespace

void TableData::pack(const std::vector<std::size_t>& packs) {
  constexpr std::size_t kAtOnce = 4;  // packs at a time; each of them needs kDegree^2 words
  for (std::size_t first = 0; first < packs.size(); first += kAtOnce)
    pack_some(std::span(packs).subspan(first, std::min(kAtOnce, packs.size() - first)));
}

void TableData::repack() {
  pack({stale.begin(), stale.end()});
  stale.clear();
}

/// Packs the packs `some` together, along the paths to 1 and to -1 (parameters.h). Item 2 p + sign has pack p.
void TableData::pack_some(std::span<const std::size_t> some) {
  const Reducer reduce(packing_ring()->prime(0));
  const std::size_t items = 2 * some.size();
  std::vector<Words> sums;
  for (const std::size_t p : some)
    sums.push_back(automorphism_sums(packing, std::span(hint).subspan(p * kDegree * kDegree, kDegree * kDegree), tables));
  Words keys(2 * kDegree);
  download(key_masks(packing, seed), keys);
  std::vector<Reducer::Factor> key;
  for (const u64 w : keys) key.push_back(reduce.factor(w));
  Transforms ntt(packing, items);
  Words current(items * kDegree), digit(items * kDegree);
  for (std::size_t item = 0; item < items; ++item)
    std::copy_n(sums[item / 2].data() + (kTurns + item % 2) * kDegree, kDegree, current.data() + item * kDegree);
  const auto digits_of = [&] {
    digit.resize(items * kDegree);
    download(ntt.inverse(current), digit);
    take_digits(digit);
    const RnsTensor& made = ntt.forward(digit);
    download(made, digit);
    return made;
  };
  for (std::size_t step = 0; step < kSteps; ++step) {
    Interruptible::heed();
    const RnsTensor made = digits_of();
    for (std::size_t item = 0; item < items; ++item) {
      const std::size_t turn = item % 2 * kSteps + step;
      packing->enqueue(
          device::Copy{made.drop_axis(0, item).view(), digits.with_components(turn * packs() + some[item / 2], 1).view()});
      const u32* const table = tables.data() + turn * kDegree;
      const u64* const next = sums[item / 2].data() + turn * kDegree;
      for (std::size_t i = 0; i < kDegree; ++i) {
        const u64 sum = next[i] + reduce.multiply(digit[item * kDegree + i], key[table[i]]);
        current[item * kDegree + i] = reduce(sum);
      }
    }
  }
  // The masks at the ends of the paths belong to S and to turn_-1(S).
  const RnsTensor made = digits_of();
  for (std::size_t p = 0; p < some.size(); ++p) {
    packing->enqueue(device::Copy{made.drop_axis(0, 2 * p + 1).view(), last.with_components(some[p], 1).view()});
    for (std::size_t i = 0; i < kDegree; ++i)
      current[2 * p * kDegree + i] =
          reduce(current[2 * p * kDegree + i] + reduce.multiply(digit[(2 * p + 1) * kDegree + i], key[kDegree + i]));
  }
  const RnsTensor& ends = ntt.inverse(current);
  download(ends, current);
  const Lowered lowered;
  for (std::size_t p = 0; p < some.size(); ++p) {
    for (std::size_t i = 0; i < kDegree; ++i) {
      const u32 mask = lowered(current[2 * p * kDegree + i], kMaskBits);
      for (std::size_t b = 0; b < kMaskBytes; ++b)
        answer_masks[(some[p] * kDegree + i) * kMaskBytes + b] = static_cast<std::uint8_t>(mask >> (8 * b));
    }
  }
}

}  // namespace heliograph::lookup
