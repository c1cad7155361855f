// Cases of convert: every use of the conversion formula, within one word size and between two word sizes.
#include "math/primes.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

struct Use {
  std::string name;
  math::Conversion conversion;
  std::size_t n = 1024;
  Shape shape{{3}, 2};          // shape of the input
  Layout out = Layout::packed;  // layout of `own` and the result
  Fill fill = Fill::random;
  PrimeList place;        // output limb of each target; if empty, target j is limb j
  std::size_t limbs = 0;  // number of limbs of the result, used with `place`
  Word from = Word::w64, to = Word::w64;
  std::size_t window = 0;  // number of coefficients in a slice of operands of degree n; 0: all
  Kind kind = Kind::arithmetic;
};

OpCase convert_case(const Use& use) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const math::Conversion& k = use.conversion;
    const auto prepared = rig.kernels().prepare(k);
    const auto seen = [&](const View& v) { return use.window > 0 ? coefficients(v, 64 / v.word_size(), use.window) : v; };
    const View x = seen(rig.input(use.from, use.n, k.from, use.shape, use.fill));
    const Shape shape{use.shape.batch, use.shape.components, use.out};
    std::vector<u64> held = k.to;  // moduli of the result's limbs
    if (use.limbs > 0) held.assign(use.limbs, 2);
    for (std::size_t j = 0; j < use.place.size(); ++j) held[use.place[j]] = k.to[j];
    const View own = k.own.empty() ? View{} : seen(rig.input(use.to, use.n, held, shape, use.fill));
    const View out = seen(rig.output(use.to, use.n, held.size(), shape));
    return [=, &rig] {
      rig.queue().enqueue(device::Convert{prepared, x, use.conversion.own.empty() ? std::nullopt : std::optional(own), out,
                                          use.place.size() > 0 ? std::optional(use.place) : std::nullopt});
    };
  };
  return {"convert", use.name, use.kind, false, declare};
}

std::vector<u64> slice(const std::vector<u64>& v, std::size_t first, std::size_t count) {
  return {v.begin() + static_cast<std::ptrdiff_t>(first), v.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

/// Adds cases within one word size.
void same_word(std::vector<OpCase>& cases, const Field& field) {
  const std::string w = field.name;
  const std::vector<u64> p = ring_of(field, 4096, 20)->primes();
  const Word word = field.word;
  const auto use = [&](const std::string& name, math::Conversion c) {
    return Use{.name = w + " " + name, .conversion = std::move(c), .from = word, .to = word, .kind = kind_in(field)};
  };
  for (const Fill fill : {Fill::random, Fill::edges, Fill::top}) {
    const std::string values = fill == Fill::random ? "" : fill == Fill::edges ? ", 0 and q-1" : ", all q-1";
    for (const auto& [from, to] : {std::pair{1, 3}, std::pair{2, 5}, std::pair{3, 4}, std::pair{8, 9}, std::pair{15, 4}}) {
      const std::string counts = std::to_string(from) + " to " + std::to_string(to) + values;
      const std::vector<u64> f = slice(p, 0, from), t = slice(p, from, to);
      Use u = use("extend " + counts, math::extend_base(f, t));
      u.fill = fill;
      if (fill != Fill::random) u.kind = Kind::arithmetic;
      cases.push_back(convert_case(u));
      u.name = w + " divide " + counts, u.conversion = math::divide_and_round(f, t, fill == Fill::edges ? 65537 : 1);
      cases.push_back(convert_case(u));
    }
  }
  Use u = use("extend, not rounded", math::extend_base(slice(p, 2, 3), slice(p, 7, 4), false, 12345));
  cases.push_back(convert_case(u));
  u = use("extend, sliced, dropped", math::extend_base({p[0], p[3], p[4]}, {p[9], p[7]}));
  u.shape = {{3, 5}, 1, Layout::sliced}, u.out = Layout::transposed, u.n = 256;
  cases.push_back(convert_case(u));
  u.name = w + " extend, broadcast", u.shape.layout = Layout::broadcast, u.n = 4;
  cases.push_back(convert_case(u));
  u.name = w + " extend, reversed", u.shape.layout = Layout::reversed, u.out = Layout::packed, u.n = 128;
  cases.push_back(convert_case(u));
  u = use("divide, reversed", math::divide_and_round({p[1], p[2]}, {p[0], p[5]}));
  u.shape = {{5}, 1}, u.out = Layout::reversed;
  cases.push_back(convert_case(u));
  u = use("extend to placed limbs", math::extend_base({p[1], p[2]}, {p[0], p[5], p[3]}));
  u.place = {0, 4, 2}, u.limbs = 6, u.out = Layout::sliced;
  cases.push_back(convert_case(u));
  u = use("divide to placed limbs", math::divide_and_round({p[1], p[2]}, {p[0], p[5], p[3]}));
  u.place = {3, 1, 0}, u.limbs = 4, u.n = 32;
  cases.push_back(convert_case(u));
  for (const std::size_t n : {192, 1088, 1984}) {
    const std::string name = "slice of " + std::to_string(n) + " coefficients";
    u = use(name, math::extend_base(slice(p, 0, 8), slice(p, 8, 5)));
    u.n = n, u.out = Layout::sliced;
    cases.push_back(convert_case(u));
    u = use(name + ", divide", math::divide_and_round(slice(p, 0, 3), slice(p, 3, 6)));
    u.n = n, u.shape = {{1}, 1};
    cases.push_back(convert_case(u));
    u.name += " in place of all", u.n = 2048, u.window = n;
    cases.push_back(convert_case(u));
  }
  u = use("extend, n=2, empty batch", math::extend_base({p[1]}, {p[0]}));
  u.shape.batch = {0}, u.n = 2;
  cases.push_back(convert_case(u));
}

/// Adds cases with more source limbs than any parameter set drops at once; their sums must not overflow.
void many_sources(std::vector<OpCase>& cases) {
  for (const Field* f : {&kField32, &kField50, &kField60}) {
    const std::vector<u64> p = ring_of(*f, 64, 66)->primes();
    for (const std::size_t from : {std::size_t{33}, std::size_t{63}}) {
      for (const Fill fill : {Fill::top, Fill::random}) {
        Use u{
            .name = std::string(f->name) + " " + std::to_string(from) + " sources" + (fill == Fill::top ? ", all q-1" : ""),
            .conversion = math::extend_base(slice(p, 0, from), slice(p, 63, 3)),
            .n = 64,
            .shape = {{1}, 1},
            .fill = fill,
            .from = f->word,
            .to = f->word};
        cases.push_back(convert_case(u));
        u.name += ", divide", u.conversion = math::divide_and_round(slice(p, 0, from), slice(p, 63, 3));
        cases.push_back(convert_case(u));
      }
    }
  }
}

/// Adds cases of plaintext moduli, which have their own word size.
void plain_cases(std::vector<OpCase>& cases) {
  const u64 t43 = math::largest_primes(43, 1, 2 * 1024)[0];
  for (const Field* f : {&kField32, &kField32Small, &kField50, &kField60}) {
    const std::vector<u64> p = ring_of(*f, 1024, 6)->primes();
    for (const u64 t : {u64{2}, u64{256}, u64{65537}, u64{786433}, u64{1} << 32, t43, u64{1} << 50}) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{6}}) {
        const std::string name = std::string(f->name) + " t=" + std::to_string(t) + " limbs=" + std::to_string(count);
        Use u{.name = name + " decrypt",
              .conversion = math::scale_to_plain(slice(p, 0, count), t),
              .shape = {{3}, 1},
              .from = f->word,
              .to = Word::w64};
        if (count == 3) u.fill = Fill::edges;
        if (t == 65537 && count == 3) u.kind = kind_in(*f);
        cases.push_back(convert_case(u));
        u.name = name + " encode", u.conversion = math::scale_from_plain(t, slice(p, 0, count));
        u.from = Word::w64, u.to = f->word;
        cases.push_back(convert_case(u));
        if (t >= u64{1} << 32) continue;
        u.name += ", 32-bit plaintext", u.from = Word::w32;
        cases.push_back(convert_case(u));
      }
    }
  }
}

/// Adds conversions of fractions of a prime below 2^50 to digits and to fractions of a turn, and back
/// (circuits/switching/context.h).
void turn_cases(std::vector<OpCase>& cases) {
  const u64 q = ring_of(kField50, 1024, 1)->prime(0), base = 1 << 14;
  math::Conversion digit = math::scale_to_plain({q}, base);
  digit.inverse[0] = math::pow_mod(2, 42, q), digit.rounded = false;
  for (const Fill fill : {Fill::random, Fill::edges}) {
    const std::string values = fill == Fill::edges ? ", 0 and q-1" : "";
    cases.push_back(convert_case({.name = "digit of a fraction" + values, .conversion = digit, .fill = fill}));
    cases.push_back(convert_case(
        {.name = "fraction to 2^-59 turns" + values, .conversion = math::scale_to_plain({q}, u64{1} << 59), .fill = fill}));
    cases.push_back(convert_case({.name = "32-bit turns to a fraction" + values,
                                  .conversion = math::scale_from_plain(u64{1} << 32, {q}),
                                  .fill = fill,
                                  .from = Word::w32}));
  }
}

}  // namespace

void conversion_cases(std::vector<OpCase>& cases) {
  for (const Field* f : main_fields()) same_word(cases, *f);
  same_word(cases, kField32Mixed);
  many_sources(cases);
  plain_cases(cases);
  turn_cases(cases);
  const std::vector<u64> narrow = ring_of(kField32, 1024, 4)->primes(), wide = ring_of(kField60, 1024, 3)->primes();
  cases.push_back(convert_case(
      {.name = "32 to 64 bits", .conversion = math::extend_base(narrow, wide), .from = Word::w32, .kind = Kind::geometry}));
  cases.push_back(convert_case({.name = "slice of 576 coefficients, 32 to 64 bits",
                                .conversion = math::extend_base(narrow, wide),
                                .n = 1024,
                                .from = Word::w32,
                                .window = 576}));
  cases.push_back(convert_case({.name = "64 to 32 bits",
                                .conversion = math::divide_and_round(wide, narrow),
                                .to = Word::w32,
                                .kind = Kind::geometry}));
}

}  // namespace heliograph::test
