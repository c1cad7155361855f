// add, sub, neg, mul, mul_accumulate, mul_constants, add_constants, copy, zero.
#include "op_cases.h"

namespace heliograph::test {

namespace {

struct Setting {
  std::string name;
  const Field* field;
  std::size_t n;
  PrimeList primes;  // of a ring of six
  std::vector<std::size_t> batch;
  std::size_t components;
  Layout layout = Layout::packed;  // of the first operand and the result
  Layout second = Layout::packed;  // of the second operand
  Fill fill = Fill::random;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Field* f : main_fields()) {
    const std::string w = f->name;
    all.push_back({w + " n=1024 batch=3", f, 1024, {0, 1, 2}, {3}, 2});
    all.push_back({w + " n=2048 sliced, levels dropped", f, 2048, {0, 2, 5}, {5}, 3, Layout::sliced});
    all.push_back(
        {w + " n=1024 transposed and broadcast", f, 1024, {4, 1}, {3, 5}, 1, Layout::transposed, Layout::broadcast});
    all.push_back(
        {w + " n=512 three axes, last broadcast", f, 512, {1, 3}, {2, 1, 3}, 2, Layout::sliced, Layout::broadcast_last});
    all.push_back({w + " n=4096 values 0 and q-1", f, 4096, {3}, {1}, 2, Layout::packed, Layout::sliced, Fill::edges});
    all.push_back(
        {w + " n=1024 no axes, all q-1", f, 1024, {0, 1, 2, 3, 4, 5}, {}, 2, Layout::packed, Layout::packed, Fill::top});
    all.push_back({w + " n=8 sliced", f, 8, {5, 0, 2}, {7}, 2, Layout::sliced, Layout::sliced, Fill::edges});
    all.push_back({w + " n=2", f, 2, {0, 5}, {3}, 1, Layout::sliced, Layout::packed, Fill::edges});
    all.push_back({w + " empty batch", f, 64, {0, 1}, {0}, 2});
  }
  all.push_back({"w32-small n=1024", &kField32Small, 1024, {0, 1, 3}, {3}, 2, Layout::sliced, Layout::packed});
  return all;
}

using Binary = void (Kernels::*)(device::Queue&, const device::PreparedRing&, PrimeList, const View&, const View&,
                                 const View&);

std::shared_ptr<const math::Ring> ring_for(const Setting& s) { return ring_of(*s.field, s.n, 6); }

/// `shared`: 1 or 2 gives that operand a single component for all of the result's; 0 neither.
OpCase binary(const std::string& kernel, Binary call, const Setting& s, int shared) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto ring = ring_for(s);
    const auto prepared = rig.prepare(ring);
    const View a = rig.input(*ring, s.primes, {s.batch, shared == 1 ? 1 : s.components, s.layout}, s.fill);
    const View b = rig.input(*ring, s.primes, {s.batch, shared == 2 ? 1 : s.components, s.second}, s.fill);
    const Shape shape{s.batch, s.components, s.layout};
    const View out =
        kernel == "mul_accumulate" ? rig.in_out(*ring, s.primes, shape, s.fill) : rig.output(*ring, s.primes, shape);
    return [=, &rig] { (rig.kernels().*call)(rig.queue(), *prepared, s.primes, a, b, out); };
  };
  return {kernel, s.name + (shared ? (shared == 1 ? ", first shared" : ", second shared") : ""), false, declare};
}

enum class Alias { first, second, both_inputs, all };

OpCase aliased(const std::string& kernel, Binary call, const Setting& s, Alias alias, const char* name) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto ring = ring_for(s);
    const auto prepared = rig.prepare(ring);
    const Shape shape{s.batch, s.components, s.layout};
    const View changed = rig.in_out(*ring, s.primes, shape, s.fill);
    const View other = rig.input(*ring, s.primes, {s.batch, s.components, s.second}, s.fill);
    const View& a = alias == Alias::first || alias == Alias::all ? changed : other;
    const View& b = alias == Alias::second || alias == Alias::all ? changed : other;
    return [=, &rig] { (rig.kernels().*call)(rig.queue(), *prepared, s.primes, a, b, changed); };
  };
  return {kernel, s.name + ", " + name, false, declare};
}

void binary_cases(std::vector<OpCase>& cases, const std::string& kernel, Binary call, bool shares) {
  for (const Setting& s : settings()) {
    cases.push_back(binary(kernel, call, s, 0));
    if (shares && s.components > 1) {
      cases.push_back(binary(kernel, call, s, 1));
      cases.push_back(binary(kernel, call, s, 2));
    }
  }
  for (const Field* f : main_fields()) {
    const Setting s{f->name, f, 1024, {0, 2, 5}, {3}, 2, Layout::sliced, Layout::sliced};
    cases.push_back(aliased(kernel, call, s, Alias::first, "out is a"));
    cases.push_back(aliased(kernel, call, s, Alias::second, "out is b"));
    cases.push_back(aliased(kernel, call, s, Alias::both_inputs, "a is b"));
    cases.push_back(aliased(kernel, call, s, Alias::all, "a, b and out are one"));
  }
}

/// Kernels of one operand: `call(rig, prepared, setting, a, out)`; in place too.
using Unary = std::function<void(Rig&, const device::PreparedRing&, const Setting&, const View& a, const View& out)>;

void unary_cases(std::vector<OpCase>& cases, const std::string& kernel, const Unary& call, const std::string& more = "") {
  for (const Setting& s : settings()) {
    const auto declare = [=](Rig& rig) -> std::function<void()> {
      const auto ring = ring_for(s);
      const auto prepared = rig.prepare(ring);
      const View a = rig.input(*ring, s.primes, {s.batch, s.components, s.second}, s.fill);
      const View out = rig.output(*ring, s.primes, {s.batch, s.components, s.layout});
      return [=, &rig] { call(rig, *prepared, s, a, out); };
    };
    cases.push_back({kernel, s.name + more, false, declare});
    const auto in_place = [=](Rig& rig) -> std::function<void()> {
      const auto ring = ring_for(s);
      const auto prepared = rig.prepare(ring);
      const View a = rig.in_out(*ring, s.primes, {s.batch, s.components, s.layout}, s.fill);
      return [=, &rig] { call(rig, *prepared, s, a, a); };
    };
    if (kernel != "copy" && kernel != "zero") cases.push_back({kernel, s.name + more + ", in place", false, in_place});
  }
}

/// One constant for each limb: 0, q-1 or something between.
device::LimbConstants constants(const math::Ring& ring, const PrimeList& primes) {
  device::LimbConstants c{};
  for (std::size_t l = 0; l < primes.size(); ++l) {
    const u64 q = ring.prime(primes[l]);
    c[l] = l % 3 == 0 ? q - 1 : l % 3 == 1 ? q / 3 * 2 + 1 : 0;
  }
  return c;
}

void add_constants_in(math::Domain domain, Rig& rig, const device::PreparedRing& r, const Setting& s, const View& a,
                      const View& out) {
  rig.kernels().add_constants(rig.queue(), r, s.primes, a, constants(r.ring(), s.primes), domain, out);
}

}  // namespace

void elementwise_cases(std::vector<OpCase>& cases) {
  binary_cases(cases, "add", &Kernels::add, false);
  binary_cases(cases, "sub", &Kernels::sub, false);
  binary_cases(cases, "mul", &Kernels::mul, true);
  binary_cases(cases, "mul_accumulate", &Kernels::mul_accumulate, true);
  unary_cases(cases, "neg", [](Rig& rig, const device::PreparedRing& r, const Setting& s, const View& a, const View& out) {
    rig.kernels().neg(rig.queue(), r, s.primes, a, out);
  });
  unary_cases(cases, "mul_constants",
              [](Rig& rig, const device::PreparedRing& r, const Setting& s, const View& a, const View& out) {
                rig.kernels().mul_constants(rig.queue(), r, s.primes, a, constants(r.ring(), s.primes), out);
              });
  for (const math::Domain domain : {math::Domain::coefficient, math::Domain::ntt}) {
    const auto call = [=](Rig& rig, const device::PreparedRing& r, const Setting& s, const View& a, const View& out) {
      add_constants_in(domain, rig, r, s, a, out);
    };
    unary_cases(cases, "add_constants", call, domain == math::Domain::ntt ? ", values" : ", coefficients");
  }
  unary_cases(cases, "copy", [](Rig& rig, const device::PreparedRing&, const Setting&, const View& a, const View& out) {
    rig.kernels().copy(rig.queue(), a, out);
  });
  unary_cases(cases, "zero", [](Rig& rig, const device::PreparedRing&, const Setting&, const View&, const View& out) {
    rig.kernels().zero(rig.queue(), out);
  });
}

}  // namespace heliograph::test
