// Cases of forward_ntt, inverse_ntt, permute and sample.
#include "op_cases.h"

namespace heliograph::test {

/// Returns X -> X^g: a table in the NTT domain, sources and signs for coefficients.
device::Permutation automorphism(std::size_t n, u64 g, math::Domain domain) {
  if (domain == math::Domain::ntt) return {math::automorphism_table(n, g), {}};
  device::Permutation p{std::vector<u32>(n), std::vector<bool>(n)};
  for (u64 i = 0; i < n; ++i) {
    const u64 to = i * g % (2 * n);  // X^i -> X^(ig), X^n = -1
    p.source[to % n] = static_cast<u32>(i);
    p.negate[to % n] = to >= n;
  }
  return p;
}

namespace {

OpCase ntt_case(const std::string& kernel, Unary call, const Field& field, std::size_t n, const PrimeList& primes,
                const Shape& in, const Shape& out_shape, Fill fill, bool in_place) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, n, 3);
    const auto prepared = rig.prepare(ring);
    if (in_place) {
      const View a = rig.in_out(*ring, primes, in, fill);
      return [=, &rig] { rig.queue().enqueue(call(prepared, primes, a, a)); };
    }
    const View a = rig.input(*ring, primes, in, fill);
    const View out = rig.output(*ring, primes, out_shape);
    return [=, &rig] { rig.queue().enqueue(call(prepared, primes, a, out)); };
  };
  std::string name = std::string(field.name) + " n=" + std::to_string(n);
  name += fill == Fill::top ? " all q-1" : fill == Fill::edges ? " 0 and q-1" : "";
  for (const std::size_t extent : in.batch) name += extent == 0 ? " empty batch" : "";
  name += in.layout == Layout::sliced ? " sliced" : in.layout == Layout::transposed ? " transposed" : "";
  name += in.layout == Layout::reversed ? " reversed" : "";
  const bool many = !in.batch.empty() && in.batch[0] > 100;
  name += many ? " many" : "";
  return {kernel, name + (in.layout == Layout::broadcast ? " broadcast" : "") + (in_place ? " in place" : ""),
          n > 4096 ? Kind::arithmetic : kind_in(field), many || n > 8192, declare};
}

void ntt_cases(std::vector<OpCase>& cases, const std::string& kernel, Unary call) {
  for (const Field* f : main_fields()) {
    const auto add = [&](std::size_t n, const PrimeList& primes, const Shape& in, const Shape& out, Fill fill,
                         bool in_place) { cases.push_back(ntt_case(kernel, call, *f, n, primes, in, out, fill, in_place)); };
    for (std::size_t n = 2; n <= 4096; n *= 2) {
      add(n, {0, 2}, {{3}, 1}, {{3}, 1}, Fill::random, true);
      add(n, {1}, {{1}, 2, Layout::sliced}, {{1}, 2, Layout::sliced}, Fill::edges, false);
    }
    add(1024, {0, 1, 2}, {{}, 1}, {{}, 1}, Fill::top, true);
    add(1024, {2, 0}, {{3, 5}, 2, Layout::transposed}, {{3, 5}, 2}, Fill::random, false);
    add(2048, {0, 1, 2}, {{5}, 1, Layout::broadcast}, {{5}, 1}, Fill::random, false);
    add(4096, {0, 1, 2}, {{2}, 3, Layout::sliced}, {{2}, 3, Layout::sliced}, Fill::random, true);
    add(512, {0, 2}, {{3, 5}, 2, Layout::reversed}, {{3, 5}, 2}, Fill::random, false);
    add(8192, {1}, {{3}, 2, Layout::reversed}, {{3}, 2, Layout::reversed}, Fill::random, true);
    add(64, {0}, {{0}, 1}, {{0}, 1}, Fill::random, true);
    add(8192, {0, 1}, {{1}, 1}, {{1}, 1}, Fill::top, true);
    // 2^23 words: each GPU thread processes several polynomials, and a remainder is left.
    if (kernel == "forward_ntt") add(4096, {0, 1, 2}, {{683}, 1}, {{683}, 1}, Fill::random, true);
    if (kernel == "inverse_ntt") add(16384, {0, 1, 2}, {{171}, 1}, {{171}, 1}, Fill::random, true);
    for (int log_n = 14; log_n <= 17; ++log_n)
      add(std::size_t{1} << log_n, {1}, {{1}, 1}, {{1}, 1}, Fill::random, log_n % 2 == 0);
  }
  cases.push_back(ntt_case(kernel, call, kField32Small, 1024, {0, 1}, {{3}, 1}, {{3}, 1}, Fill::edges, true));
}

OpCase permute_case(const Field& field, std::size_t n, u64 g, math::Domain domain, const Shape& in, const Shape& out_shape,
                    Fill fill) {
  const PrimeList primes{2, 0};
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, n, 3);
    const auto prepared = rig.prepare(ring);
    const auto p = rig.kernels().prepare(automorphism(n, g, domain));
    const View a = rig.input(*ring, primes, in, fill);
    const View out = rig.output(*ring, primes, out_shape);
    return [=, &rig] { rig.queue().enqueue(device::Permute{prepared, primes, p, a, out}); };
  };
  const char* where = domain == math::Domain::ntt ? " values" : " coefficients";
  return {"permute", std::string(field.name) + " n=" + std::to_string(n) + " g=" + std::to_string(g) + where, kind_in(field),
          false, declare};
}

void permute_cases(std::vector<OpCase>& cases) {
  for (const Field* f : main_fields()) {
    for (const math::Domain d : {math::Domain::coefficient, math::Domain::ntt}) {
      cases.push_back(permute_case(*f, 1024, 3, d, {{3}, 2}, {{3}, 2}, Fill::random));
      cases.push_back(permute_case(*f, 2048, 4095, d, {{3, 5}, 1, Layout::transposed}, {{3, 5}, 1}, Fill::edges));
      cases.push_back(
          permute_case(*f, 4096, 5 * 5 * 5, d, {{5}, 1, Layout::broadcast}, {{5}, 1, Layout::sliced}, Fill::random));
      cases.push_back(permute_case(*f, 1024, 25, d, {{2, 3}, 2, Layout::reversed}, {{2, 3}, 2}, Fill::random));
      cases.push_back(permute_case(*f, 8, 5, d, {{3}, 3, Layout::sliced}, {{3}, 3, Layout::sliced}, Fill::edges));
    }
  }
}

OpCase sample_case(const Field& field, std::size_t n, const PrimeList& primes, const device::Draw& draw, const Shape& shape,
                   const std::string& name) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, n, 4);
    const auto prepared = rig.prepare(ring);
    const View out = rig.output(*ring, primes, shape);
    return [=, &rig] { rig.queue().enqueue(device::Sample{prepared, primes, Secret(draw), out}); };
  };
  return {"sample", std::string(field.name) + " n=" + std::to_string(n) + " " + name, kind_in(field), false, declare};
}

void sample_cases(std::vector<OpCase>& cases) {
  using device::Distribution;
  for (const Field* f : main_fields()) {
    for (const auto& [distribution, name] :
         {std::pair{Distribution::uniform, "uniform"}, std::pair{Distribution::ternary, "ternary"},
          std::pair{Distribution::gaussian, "gaussian"}}) {
      device::Draw draw{.distribution = distribution, .purpose = 1};
      for (std::size_t i = 0; i < draw.key.size(); ++i) draw.key[i] = static_cast<unsigned char>(7 * i + 3);
      cases.push_back(sample_case(*f, 1024, {0, 1, 2, 3}, draw, {{3}, 2}, name));
      draw.purpose = 255, draw.object = 0xfffffffe, draw.first_item = 1'000'000;
      cases.push_back(
          sample_case(*f, 2048, {3, 1}, draw, {{3, 2}, 1, Layout::transposed}, name + std::string(" later items")));
      draw.first_item = 17;
      cases.push_back(sample_case(*f, 16, {2}, draw, {{5}, 3, Layout::sliced}, name + std::string(" sliced")));
      cases.push_back(sample_case(*f, 2, {0, 3}, draw, {{}, 1}, name));
    }
  }
}

}  // namespace

void transform_cases(std::vector<OpCase>& cases) {
  ntt_cases(cases, "forward_ntt", call_of<device::ForwardNtt>);
  ntt_cases(cases, "inverse_ntt", call_of<device::InverseNtt>);
  permute_cases(cases);
  sample_cases(cases);
}

}  // namespace heliograph::test
