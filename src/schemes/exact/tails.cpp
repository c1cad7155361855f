#include "schemes/exact/tails.h"

#include <algorithm>

#include "base/checked.h"
#include "schemes/exact/encode.h"

namespace heliograph::exact {

namespace {

/// Returns the polynomials of the numbers in the padding slots of items [first, first + count), and log2 of the
/// polynomials' largest norm.
std::pair<RnsTensor, double> behind(const CiphertextData& x, std::size_t part, std::size_t first, std::size_t count) {
  Context& c = *x.context;
  const std::size_t n = c.spec().n, modulus = x.first_part + part;
  Values values{{}, {count}, n};
  values.data.resize(checked_mul(count, n));
  for (std::size_t i = 0; i < count; ++i)
    std::fill_n(values.data.begin() + static_cast<std::ptrdiff_t>(i * n + x.width), n - x.width,
                static_cast<std::int64_t>(x.tails[part].at(first + i)));
  const PlainBatch batch = make_plain_batch(c, count, ring::Secrecy::open);
  upload_values(c, modulus, values, Packing::slots, 0, batch);
  const double norm = log_norm_of(c, batch, c.plain(modulus).t);
  const RnsTensor words = scale_up(c, modulus, batch, x.level(), x.factors[part]);
  return {ring::to_domain(words, x.parts[part].domain()), norm};
}

/// Number of items that are encoded at a time, which limits the scratch memory.
constexpr std::size_t kStretch = 32;

}  // namespace

Ciphertext cleared(const Ciphertext& a) {
  const CiphertextData& x = a.data();
  const auto is_number = [](const Tail& t) { return t.is_number(); };
  if (std::none_of(x.tails.begin(), x.tails.end(), is_number)) return a;
  Context& c = *x.context;
  CiphertextData r = derived(x);
  r.distinct = r.independent = false;
  r.parts = x.parts, r.tails = x.tails, r.bounds = x.bounds;  // magnitudes do not grow, so the bounds remain valid
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    if (!is_number(x.tails[part])) continue;
    double norm = 0;
    if (x.tails[part].numbers().size() == 1) {
      const auto [words, log_norm] = behind(x, part, 0, 1);
      r.parts[part] = ring::subtract(x.parts[part], words.drop_axis(0, 0));
      norm = log_norm;
    } else {
      const std::size_t items = x.front().items();
      const RnsTensor flat = x.parts[part].reshape({items});
      std::vector<RnsTensor> pieces;
      for (std::size_t first = 0; first < items; first += kStretch) {
        const std::size_t count = std::min(kStretch, items - first);
        const auto [words, log_norm] = behind(x, part, first, count);
        pieces.push_back(ring::subtract(flat.slice(0, first, 1, count), words));
        norm = std::max(norm, log_norm);
      }
      r.parts[part] = ring::concatenate(pieces, 0).reshape(x.shape());
    }
    const std::size_t modulus = x.first_part + part;
    r.noise[part] = rlwe::log2_sum(x.noise[part], c.rules().message_noise(modulus, norm, x.factors[part]));
    r.tails[part] = {};
  }
  return finish(std::move(r));
}

Ciphertext masked(const Ciphertext& a) {
  const CiphertextData& x = a.data();
  if (common_tail(x).is_zero()) return a;
  return multiply(a, encode(a.parameters(), {std::vector<std::int64_t>(x.width, 1), {}, x.width}, Packing::slots));
}

Ciphertext of_width(const Ciphertext& a, std::size_t width) {
  const CiphertextData& x = a.data();
  if (x.width >= width || common_tail(x).kind() == Tail::Kind::even) return a;
  const auto known = [](const Tail& t) { return t.kind() == Tail::Kind::known; };
  return std::all_of(x.tails.begin(), x.tails.end(), known) ? cleared(a) : masked(a);
}

Ciphertext own(const Ciphertext& a) {
  const std::vector<Tail>& tails = a.data().tails;
  const bool open = std::any_of(tails.begin(), tails.end(), [](const Tail& t) { return t.kind() == Tail::Kind::unknown; });
  return open ? masked(a) : cleared(a);
}

Tail common_tail(const CiphertextData& x) {
  const auto all = [&](auto is) { return std::all_of(x.tails.begin(), x.tails.end(), is); };
  if (all([](const Tail& t) { return t.is_zero(); })) return {};
  return all([](const Tail& t) { return t.kind() == Tail::Kind::even; }) ? Tail::even() : Tail::unknown();
}

}  // namespace heliograph::exact
