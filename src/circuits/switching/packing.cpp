// From LWE ciphertexts under TFHE's wide key to a CKKS ciphertext at the lowest level (Chen, Dai, Kim, Song, ePrint
// 2020/015, section 3). A fold joins two ciphertexts a and b to a + X^k b + turn(a - X^k b). The automorphism `turn` keeps
// the coefficients of a and negates the coefficients of X^k b. Each fold doubles the phases, so all phases are divided by d
// first.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/progress.h"
#include "circuits/switching/context.h"

namespace heliograph::switching {

namespace {

/// Views 64-bit words as pairs of 32-bit halves, the low half first, from word `from` on.
View halves(View v, std::size_t from, std::size_t words) {
  v.data += from * sizeof(u64);
  v.word = math::Word::w32, v.n = 2 * words;
  for (int i = 0; i < v.axes; ++i) v.stride[i] *= 2;
  v.component_stride *= 2, v.limb_stride *= 2;
  return v;
}

View shortened(View v, std::size_t n) {
  v.n = n;
  return v;
}

/// Returns the product with X^power as a permutation of coefficients.
device::Permutation times_monomial(std::size_t n, std::size_t power) {
  device::Permutation p{.source = std::vector<math::u32>(n), .negate = std::vector<bool>(n)};
  for (std::size_t i = 0; i < n; ++i) p.source[i] = static_cast<math::u32>((i + n - power) % n), p.negate[i] = i < power;
  return p;
}

}  // namespace

void Context::make_packing() {
  const u64 q = narrow_->engine()->ring().prime(0);
  device::Kernels& kernels = narrow_->engine()->kernels();
  // The words are stored as halves: the high half of word k is at 2 k + 1. The constant of -a(X^-1) S is -a_0 S_0 + ... -
  // a_k S_k.
  device::Permutation mask{.source = std::vector<math::u32>(2 * wide_), .negate = std::vector<bool>(2 * wide_)};
  device::Permutation body = mask;
  for (std::size_t i = 0; i < wide_; ++i) {
    mask.source[i] = static_cast<math::u32>(2 * ((wide_ - i) % wide_) + 1), mask.negate[i] = i == 0;
    mask.source[wide_ + i] = static_cast<math::u32>(2 * i);
    body.source[i] = static_cast<math::u32>(2 * ((i + wide_ - 64) % wide_) + 1);
    body.source[wide_ + i] = static_cast<math::u32>(2 * i);
  }
  mask_ = kernels.prepare(std::move(mask)), body_ = kernels.prepare(std::move(body));
  for (std::size_t power = wide_ / 4; power > 0; power /= 2)
    monomials_of_.push_back(kernels.prepare(times_monomial(wide_, power)));
  math::Conversion from = math::scale_from_plain(u64{1} << 32, {q});
  const u64 inverse = math::inverse_mod(wide_, q);
  from.matrix[0] = math::mul_mod(from.matrix[0], inverse, q), from.wrap[0] = inverse;
  from_turns_ = kernels.prepare(std::move(from));
  const PrimeList special = ckks_->bootstrapper().to_coefficients_keys().special;
  to_dense_ = ckks_->rlwe().own_switch_plan(low_, special, low_, to_dense_layout().primes);
}

std::vector<u64> Context::downloaded(const RnsTensor& x) {
  const std::vector<std::byte> bytes = ring::download(x);
  std::vector<u64> words(bytes.size() / sizeof(u64));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

std::shared_ptr<rlwe::Context> Context::own_narrow() const {
  device::Device& own = ckks_->key_holder()->engine().device();
  if (&own == &narrow_->engine()->device()) return narrow_;
  return std::make_shared<rlwe::Context>(own, narrow_->parameters());
}

rlwe::KeyLayout Context::to_dense_layout() const {
  PrimeList primes = low_;
  primes.append(ckks_->bootstrapper().to_coefficients_keys().special);
  return {primes, 1};
}

std::vector<u64> Context::packing_galois() const {
  std::vector<u64> all;
  for (u64 power = 2; power <= wide_; power *= 2) all.push_back(power + 1);
  return all;
}

RnsTensor Context::as_ring(const lwe::Tensor& x) const {
  const std::shared_ptr<ring::Engine>& narrow = narrow_->engine();
  ring::Engine& e = *narrow;
  const RnsTensor out(narrow, x.shape(), 2, kFirst, Domain::coefficient);
  if (!one_memory()) {
    const std::vector<u64> words = lwe::download(x);
    std::vector<u64> high(x.items() * 2 * wide_);
    for (std::size_t i = 0; i < x.items(); ++i) {
      const u64* const from = words.data() + i * tfhe_->words();
      high[2 * i * wide_] = from[wide_] >> 32;
      for (std::size_t k = 0; k < wide_; ++k) high[(2 * i + 1) * wide_ + k] = from[k] >> 32;
    }
    const RnsTensor turns(narrow, x.shape(), 2, kFirst, Domain::coefficient);
    ring::upload(turns, std::as_bytes(std::span(high)));
    e.enqueue(device::Convert{from_turns_, turns.view(), {}, out.view()});
    const RnsTensor mask = out.with_components(1, 1), turned = ring::automorphism(mask, 2 * wide_ - 1);
    e.enqueue(device::Neg{e.prepared(), kFirst, turned.view(), mask.view()});
    return out;
  }
  e.enqueue(device::Zero{out.view()});
  // The copy is in memory of this queue, because the rings' engines have separate queues.
  const View like = View::dense(nullptr, math::Word::w64, x.shape(), 1, 1, 2 * wide_);
  const View residues = like.in(e.allocate(like, kFirst)), sorted = like.in(e.allocate(like, kFirst));
  const auto read = [&](std::size_t from, const device::PermutationHandle& permutation) {
    e.enqueue(device::Convert{from_turns_, halves(x.view(), from, wide_), {}, residues});
    e.enqueue(device::Permute{pairs_->prepared(), kFirst, permutation, residues, sorted});
  };
  read(0, mask_);
  e.enqueue(device::Copy{shortened(sorted, wide_), out.with_components(1, 1).view()});
  // The window's last 64 words hold the body, which the permutation places first.
  read(64, body_);
  e.enqueue(device::Mul{e.prepared(), kFirst, shortened(sorted, 64), first_.broadcast_to(x.shape()).view(),
                        shortened(out.with_components(0, 1).view(), 64)});
  return out;
}

RnsTensor Context::folded(const RnsTensor& plus, const RnsTensor& minus, u64 galois, const rlwe::SwitchKey& key) const {
  ring::Engine& e = *narrow_->engine();
  const RnsTensor turned = ring::automorphism(minus, galois), digits = digits_(turned.with_components(1, 1));
  const RnsTensor pairs = key.pairs();
  const RnsTensor sum(narrow_->engine(), turned.shape(), 2, kFirst, Domain::ntt);
  e.enqueue(device::InnerProduct{e.prepared(), kFirst, digits.view(), pairs.view(), kFirst, sum.view()});
  const RnsTensor out = ring::add(ring::to_domain(sum, Domain::coefficient), plus);
  const View body = out.with_components(0, 1).view();
  e.enqueue(device::Add{e.prepared(), kFirst, body, turned.with_components(0, 1).view(), body});
  return out;
}

RnsTensor Context::pack(const lwe::Tensor& x, const std::map<u64, rlwe::SwitchKey>& keys) const {
  const std::size_t items = x.shape()[0], width = x.shape()[1], parts = (width + places_ - 1) / places_;
  ring::Engine &e = *narrow_->engine(), &wide = ckks_->engine();
  const std::shared_ptr<ring::Engine>& engine = ckks_->rlwe().engine();
  const RnsTensor split(engine, {items}, 2, low_, Domain::coefficient),
      joined(engine, {items}, 2, low_, Domain::coefficient);
  order(tfhe_->session(), e, x.view());
  if (one_memory()) {
    wide.enqueue(device::Zero{split.view()});
    order(wide, e, split.view());
  }
  std::vector<u64> words(one_memory() ? 0 : items * 2 * ckks_->spec().n);
  const std::size_t stretch = e.items_at_once(places_ * 20 * wide_ * sizeof(u64), items);
  ProgressSteps steps(static_cast<double>(parts * items));
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = part * places_, count = std::min(places_, width - first);
    for (std::size_t at = 0; at < items; at += stretch) {
      const std::size_t some = std::min(stretch, items - at);
      RnsTensor a = as_ring(x.slice(0, at, 1, some).slice(1, first, 1, count));
      if (count < places_) {
        const RnsTensor all(narrow_->engine(), {some, places_}, 2, kFirst, Domain::coefficient);
        e.enqueue(device::Zero{all.view()});
        e.enqueue(device::Copy{a.view(), all.slice(1, 0, 1, count).view()});
        a = all;
      }
      a = folded(a, a, 3, keys.at(3));  // leaves zeros in the upper half of the positions
      std::size_t level = 2;
      for (std::size_t half = places_ / 2; half > 0; half /= 2, ++level) {
        const RnsTensor even = a.slice(1, 0, 2, half), odd = a.slice(1, 1, 2, half);
        const RnsTensor moved(narrow_->engine(), odd.shape(), 2, kFirst, Domain::coefficient);
        e.enqueue(device::Permute{e.prepared(), kFirst, monomials_of_[level - 2], odd.view(), moved.view()});
        const u64 galois = (u64{1} << level) + 1;
        a = folded(ring::add(even, moved), ring::subtract(even, moved), galois, keys.at(galois));
      }
      for (u64 power = u64{1} << level; power <= wide_; power *= 2) a = folded(a, a, power + 1, keys.at(power + 1));
      if (one_memory()) {
        View to = split.slice(0, at, 1, some).view();
        to.data += part * wide_ * sizeof(u64), to.n = wide_;
        e.enqueue(device::Copy{a.drop_axis(1, 0).view(), to});
      } else {
        const std::vector<u64> from = downloaded(a);
        for (std::size_t row = 0; row < 2 * some; ++row)
          std::copy_n(from.data() + row * wide_, wide_, words.data() + ((2 * at + row) * this->parts() + part) * wide_);
      }
      steps.add(static_cast<double>(some));
    }
  }
  if (one_memory())
    order(e, wide, split.view());
  else
    ring::upload(split, std::as_bytes(std::span(words)));
  wide.enqueue(device::Permute{wide.prepared(), low_, join_, split.view(), joined.view()});
  return joined;
}

RnsTensor Context::to_dense(const RnsTensor& x, const rlwe::SwitchKey& key) const {
  ring::Engine& e = ckks_->engine();
  const RnsTensor pairs = key.pairs();
  const RnsTensor out(x.engine(), x.shape(), 2, low_, Domain::ntt);
  e.enqueue(device::KeySwitch{to_dense_, Domain::ntt, x.with_components(1, 1).view(), pairs.view(),
                              x.with_components(0, 1).view(), out.view()});
  return out;
}

double Context::packing_variance() const {
  const double d = static_cast<double>(wide_), dropped = d / 2 * 0x1p-33;  // adds the mean of the dropped halves
  return digits_.variance(d, error_variance(), d / 2) * (d * d - 1) / 3 / (q_ * q_) + dropped * dropped;
}

}  // namespace heliograph::switching
