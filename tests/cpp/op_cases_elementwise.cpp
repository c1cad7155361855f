// Cases of add, sub, neg, mul, mul_accumulate, mul_constants, add_constants, weighted_sum, copy, gather and zero.
#include "op_cases.h"

namespace heliograph::test {

namespace {

struct Elementwise {
  std::string name;
  const Field* field;
  std::size_t n;
  PrimeList primes;  // indices of the used primes, in a ring of six
  std::vector<std::size_t> batch;
  std::size_t components;
  Layout layout = Layout::packed;  // layout of the first operand and the result
  Layout second = Layout::packed;  // layout of the second operand
  Fill fill = Fill::random;
  std::size_t slice = 0;  // number of coefficients in a slice; 0: no slice is taken
  bool window = false;    // whether the operands' memory has all coefficients, or only those of the slice
  bool rows = false;      // whether the operands are rows (of any length) instead of polynomials
};

/// Adds slices whose number of coefficients is a multiple of 64 and usually not a power of two.
void slices(std::vector<Elementwise>& all, const Field* f) {
  const std::string w = f->name;
  const auto add = [&](const std::string& name, std::size_t n, std::size_t slice, bool window, const Elementwise& of) {
    all.push_back(of);
    all.back().name = w + " slice of " + std::to_string(slice) + " coefficients" + name;
    all.back().field = f, all.back().n = n, all.back().slice = slice, all.back().window = window;
  };
  const Elementwise two{"", nullptr, 0, {0, 2}, {3}, 2};
  add("", 1024, 64, false, two);
  add(", sliced", 1024, 192, false, {"", nullptr, 0, {4, 1, 3}, {2, 2}, 2, Layout::sliced, Layout::broadcast});
  add(" in place of all", 1024, 448, true, {"", nullptr, 0, {1}, {3}, 2, Layout::packed, Layout::sliced, Fill::edges});
  add(" of one item", 16384, 8256, false, {"", nullptr, 0, {5}, {}, 1});
  add(" of one item in place of all", 8192, 4160, true, {"", nullptr, 0, {2}, {1}, 2});
}

/// Adds rows whose lengths are multiples of 64 residues.
void rows(std::vector<Elementwise>& all, const Field* f) {
  const std::string w = f->name;
  all.push_back({w + " rows of 1,024", f, 1024, {0, 3}, {3}, 2});
  all.push_back({w + " rows of 1,088, sliced", f, 1088, {5, 1, 2}, {2, 3}, 2, Layout::sliced, Layout::broadcast});
  all.push_back({w + " rows of 10,048", f, 10048, {0, 1, 2, 3}, {}, 1, Layout::packed, Layout::packed, Fill::edges});
  for (std::size_t i = all.size() - 3; i < all.size(); ++i) all[i].rows = true;
}

std::vector<Elementwise> elementwise() {
  std::vector<Elementwise> all;
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
    all.push_back({w + " n=1024, reversed beside", f, 1024, {3, 1}, {3, 2}, 2, Layout::packed, Layout::reversed});
    all.push_back({w + " n=512 reversed and broadcast", f, 512, {0, 4}, {5}, 1, Layout::reversed, Layout::broadcast_last});
    all.push_back({w + " n=64 reversed and sliced", f, 64, {0, 4}, {2, 7}, 3, Layout::reversed, Layout::sliced});
    all.push_back({w + " n=8 sliced", f, 8, {5, 0, 2}, {7}, 2, Layout::sliced, Layout::sliced, Fill::edges});
    all.push_back({w + " n=2", f, 2, {0, 5}, {3}, 1, Layout::sliced, Layout::packed, Fill::edges});
    all.push_back({w + " empty batch", f, 64, {0, 1}, {0}, 2});
    slices(all, f);
    rows(all, f);
  }
  all.push_back({"w32-small n=1024", &kField32Small, 1024, {0, 1, 3}, {3}, 2, Layout::sliced, Layout::packed});
  return all;
}

std::shared_ptr<const math::Ring> ring_for(const Elementwise& s) {
  return s.rows ? rows_of(*s.field, s.n, 6) : ring_of(*s.field, s.n, 6);
}

/// `held` returns the number of coefficients in an operand's memory. `seen` returns the view that a call gets; a window
/// begins at a multiple of 64 bytes.
std::size_t held(const Elementwise& s) { return s.slice == 0 || s.window ? s.n : s.slice; }
View seen(const Elementwise& s, const View& v) {
  return s.window && s.slice > 0 ? coefficients(v, 64 / v.word_size() * 3, s.slice) : v;
}

View input(Rig& rig, const Elementwise& s, const Shape& shape) {
  return seen(s, rig.input(s.field->word, held(s), moduli(*ring_for(s), s.primes), shape, s.fill));
}
View in_out(Rig& rig, const Elementwise& s, const Shape& shape) {
  return seen(s, rig.in_out(s.field->word, held(s), moduli(*ring_for(s), s.primes), shape, s.fill));
}
View output(Rig& rig, const Elementwise& s, const Shape& shape) {
  return seen(s, rig.output(s.field->word, held(s), s.primes.size(), shape));
}

/// `shared`: the operand (1 or 2) that has a single component, which is broadcast; 0: neither operand.
OpCase binary(const std::string& kernel, Binary call, const Elementwise& s, int shared) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto prepared = rig.prepare(ring_for(s));
    const View a = input(rig, s, {s.batch, shared == 1 ? 1 : s.components, s.layout});
    const View b = input(rig, s, {s.batch, shared == 2 ? 1 : s.components, s.second});
    const Shape shape{s.batch, s.components, s.layout};
    const View out = kernel == "mul_accumulate" ? in_out(rig, s, shape) : output(rig, s, shape);
    return [=, &rig] { rig.queue().enqueue(call(prepared, s.primes, a, b, out)); };
  };
  return {kernel, s.name + (shared ? (shared == 1 ? ", first shared" : ", second shared") : ""), kind_in(*s.field), false,
          declare};
}

enum class Alias { first, second, both_inputs, all };

OpCase aliased(const std::string& kernel, Binary call, const Elementwise& s, Alias alias, const char* name) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto prepared = rig.prepare(ring_for(s));
    const View changed = in_out(rig, s, {s.batch, s.components, s.layout});
    const View other = input(rig, s, {s.batch, s.components, s.second});
    const View& a = alias == Alias::first || alias == Alias::all ? changed : other;
    const View& b = alias == Alias::second || alias == Alias::all ? changed : other;
    return [=, &rig] { rig.queue().enqueue(call(prepared, s.primes, a, b, changed)); };
  };
  return {kernel, s.name + ", " + name, kind_in(*s.field), false, declare};
}

void binary_cases(std::vector<OpCase>& cases, const std::string& kernel, Binary call, bool shares) {
  for (const Elementwise& s : elementwise()) {
    cases.push_back(binary(kernel, call, s, 0));
    if (shares && s.components > 1) {
      cases.push_back(binary(kernel, call, s, 1));
      cases.push_back(binary(kernel, call, s, 2));
    }
  }
  for (const Field* f : main_fields()) {
    const Elementwise s{f->name, f, 1024, {0, 2, 5}, {3}, 2, Layout::sliced, Layout::sliced};
    cases.push_back(aliased(kernel, call, s, Alias::first, "out is a"));
    cases.push_back(aliased(kernel, call, s, Alias::second, "out is b"));
    cases.push_back(aliased(kernel, call, s, Alias::both_inputs, "a is b"));
    cases.push_back(aliased(kernel, call, s, Alias::all, "a, b and out are one"));
  }
}

/// The second factor has `words` words per limb; each word multiplies a run of consecutive coefficients. `in_place`: the
/// first factor's memory receives the result.
OpCase runs_case(const std::string& kernel, Binary call, const Elementwise& s, std::size_t words, bool shared,
                 bool in_place) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto ring = ring_for(s);
    const auto prepared = rig.prepare(ring);
    const Shape shape{s.batch, s.components, s.layout};
    const bool changes = in_place || kernel == "mul_accumulate";
    const View out = changes ? in_out(rig, s, shape) : output(rig, s, shape), a = in_place ? out : input(rig, s, shape);
    const View b =
        rig.input(s.field->word, words, moduli(*ring, s.primes), {s.batch, shared ? 1 : s.components, s.second}, s.fill);
    return [=, &rig] { rig.queue().enqueue(call(prepared, s.primes, a, b, out)); };
  };
  return {kernel,
          s.name + ", second of " + std::to_string(words) + (words == 1 ? " word" : " words") + (shared ? ", shared" : "") +
              (in_place ? ", out is a" : ""),
          kind_in(*s.field), false, declare};
}

void runs_cases(std::vector<OpCase>& cases, const std::string& kernel, Binary call) {
  for (const Field* f : main_fields()) {
    const std::string w = f->name;
    const Elementwise plain{w + " n=1024", f, 1024, {0, 1, 2}, {3}, 2};
    const Elementwise sliced{w + " n=2048 sliced", f, 2048, {0, 2, 5}, {2, 3}, 2, Layout::sliced, Layout::reversed};
    const Elementwise same{w + " n=512 broadcast", f, 512, {4, 1}, {3}, 3, Layout::reversed, Layout::broadcast};
    const Elementwise short_ring{w + " n=8 sliced", f, 8, {5, 0, 2}, {7}, 2, Layout::sliced, Layout::sliced, Fill::edges};
    Elementwise slice{w + " slice of 192 coefficients", f, 1024, {4, 1}, {3}, 2};
    slice.slice = 192;
    cases.push_back(runs_case(kernel, call, plain, 1, false, false));
    cases.push_back(runs_case(kernel, call, plain, 512, true, true));
    cases.push_back(runs_case(kernel, call, sliced, 32, false, false));
    cases.push_back(runs_case(kernel, call, sliced, 1024, false, true));
    cases.push_back(runs_case(kernel, call, same, 4, true, false));
    cases.push_back(runs_case(kernel, call, same, 64, false, false));
    cases.push_back(runs_case(kernel, call, short_ring, 2, false, false));
    cases.push_back(runs_case(kernel, call, slice, 24, false, false));
  }
}

/// Adds cases of a kernel of one operand, with a result in separate memory and in place: `call(rig, prepared, setting, a,
/// out)`.
using OneInput = std::function<void(Rig&, const device::RingHandle&, const Elementwise&, const View& a, const View& out)>;

constexpr const char* kCoefficients = ", coefficients";  // for add_constants

void unary_cases(std::vector<OpCase>& cases, const std::string& kernel, const OneInput& call, const std::string& more = "") {
  for (const Elementwise& s : elementwise()) {
    // in coefficient form, only the slice with coefficient 0 receives the constant
    if ((s.slice > 0 || s.rows) && more == kCoefficients) continue;
    const auto declare = [=](Rig& rig) -> std::function<void()> {
      const auto prepared = rig.prepare(ring_for(s));
      const View a = input(rig, s, {s.batch, s.components, s.second});
      const View out = output(rig, s, {s.batch, s.components, s.layout});
      return [=, &rig] { call(rig, prepared, s, a, out); };
    };
    cases.push_back({kernel, s.name + more, kind_in(*s.field), false, declare});
    const auto in_place = [=](Rig& rig) -> std::function<void()> {
      const auto prepared = rig.prepare(ring_for(s));
      const View a = in_out(rig, s, {s.batch, s.components, s.layout});
      return [=, &rig] { call(rig, prepared, s, a, a); };
    };
    if (kernel != "copy" && kernel != "zero")
      cases.push_back({kernel, s.name + more + ", in place", kind_in(*s.field), false, in_place});
  }
}

/// A piece of a gather: copies a complete tensor, or `count` coefficients that begin at `from_first`, to `to_first`.
struct PieceOf {
  std::size_t n, limbs;
  Shape shape;
  Layout to = Layout::packed;
  std::size_t count = 0, from_first = 0, to_first = 0;
  std::vector<std::size_t> to_batch = {};  // batch shape of the target, if it differs from the source's
};

OpCase gather_case(const std::string& name, const Field& field, const std::vector<PieceOf>& pieces) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    std::vector<device::Piece> list;
    for (const PieceOf& p : pieces) {
      const auto& batch = p.to_batch.empty() ? p.shape.batch : p.to_batch;
      View from = rig.input(field.word, p.n, std::vector<u64>(p.limbs, u64{1} << 30), p.shape);
      View to = rig.output(field.word, p.n, p.limbs, {batch, p.shape.components, p.to});
      if (p.count > 0) from = coefficients(from, p.from_first, p.count), to = coefficients(to, p.to_first, p.count);
      list.push_back({from, to});
    }
    return [=, &rig] { rig.queue().enqueue(device::Gather{list}); };
  };
  return {"gather", std::string(field.name) + " " + name, Kind::geometry, false, declare};
}

/// Returns a case that joins three slices (an eighth, a half and the rest of the coefficients) to one tensor.
OpCase joined_case(const Field& field) {
  const auto declare = [&field](Rig& rig) -> std::function<void()> {
    const std::vector<u64> moduli(3, u64{1} << 30);
    const View out = rig.output(field.word, 1024, 3, {{2, 3}, 2, Layout::transposed});
    std::vector<device::Piece> list;
    std::size_t first = 0;
    for (const std::size_t count : {std::size_t{128}, std::size_t{512}, std::size_t{384}}) {
      list.push_back({rig.input(field.word, count, moduli, {{2, 3}, 2}), coefficients(out, first, count)});
      first += count;
    }
    return [=, &rig] { rig.queue().enqueue(device::Gather{list}); };
  };
  return {"gather", std::string(field.name) + " slices to a whole", Kind::geometry, false, declare};
}

void gather_cases(std::vector<OpCase>& cases, const Field& f) {
  std::vector<PieceOf> pieces;
  const auto piece = [&](PieceOf p) { pieces.push_back(std::move(p)); };
  const auto done = [&](const std::string& name) { cases.push_back(gather_case(name, f, pieces)), pieces.clear(); };
  cases.push_back(joined_case(f));
  done("no pieces, empty batch");
  piece({64, 2, {{0}, 2}});
  done("empty batch");
  piece({64, 2, {{0}, 2}});
  piece({64, 2, {{5}, 2}});
  done("one of two is empty");
  piece({1024, 3, {{3}, 2}});
  done("one piece, whole");

  piece({256, 3, {{3, 5}, 2, Layout::sliced}});
  piece({192, 2, {{2, 3}, 1, Layout::transposed}, Layout::sliced});
  piece({64, 2, {{3, 2}, 2, Layout::broadcast}});
  piece({320, 1, {{2, 3}, 3, Layout::broadcast_last}, Layout::transposed});
  piece({128, 4, {{}, 2, Layout::sliced}, Layout::sliced});
  piece({192, 3, {{3, 5}, 2, Layout::reversed}});
  piece({64, 2, {{2, 3}, 2, Layout::reversed}, Layout::transposed});
  piece({128, 2, {{4}, 1, Layout::sliced}, Layout::reversed});
  piece({64, 1, {{6}, 1, Layout::reversed}, Layout::reversed});
  done("layouts");

  piece({1, 2, {{3}, 1}});
  piece({3, 1, {{}, 2, Layout::sliced}});
  piece({7, 3, {{5}, 2}, Layout::sliced});
  piece({63, 2, {{2}, 1, Layout::broadcast}});
  piece({65, 2, {{2, 3}, 2, Layout::transposed}});
  piece({5, 1, {{7}, 1, Layout::reversed}});
  piece({1025, 1, {{1}, 2}});
  piece({64, 2, {{3}, 2}});
  done("odd n");

  piece({1024, 2, {{3}, 2}, Layout::packed, 192, 64, 768});
  piece({512, 3, {{2}, 1, Layout::sliced}, Layout::packed, 320, 128, 64});
  piece({64, 2, {{3}, 2}, Layout::packed, 17, 3, 40});
  done("windows");

  piece({64, 2, {{2, 3, 2, 3, 2}, 2, Layout::sliced}});
  piece({64, 2, {{2, 1, 2, 1, 2, 2}, 2, Layout::transposed}, Layout::sliced});
  piece({64, 2, {{6}, 2}});
  pieces.back().to_batch = {2, 3};
  piece({64, 2, {{4, 3}, 2, Layout::transposed}, Layout::sliced});
  pieces.back().to_batch = {2, 6};
  piece({128, 2, {{3}, 2}});
  done("axes that do not go together");

  for (std::size_t i = 0; i < 40; ++i)
    piece({64 * (1 + i * 7 % 11), 1 + i % 3, {{1 + i % 4}, 2, i % 5 == 0 ? Layout::sliced : Layout::packed}});
  pieces[20].n = 37, pieces[33].n = 2;
  done("more pieces than a launch takes");

  piece({64, 1, {{1}, 1}});
  piece({16384, 4, {{3}, 2}});
  piece({64, 2, {{}, 1}});
  piece({8192, 2, {{2}, 2, Layout::sliced}});
  done("small beside large");
}

/// Returns one constant per limb: 0, q-1 or a value between.
device::LimbConstants constants(const math::Ring& ring, const PrimeList& primes) {
  device::LimbConstants c{};
  for (std::size_t l = 0; l < primes.size(); ++l) {
    const u64 q = ring.prime(primes[l]);
    c[l] = l % 3 == 0 ? q - 1 : l % 3 == 1 ? q / 3 * 2 + 1 : 0;
  }
  return c;
}

/// Returns a case of a sum of `terms` terms, whose layouts alternate between two. `in_place`: index of the term whose memory
/// receives the result.
struct Weighted {
  std::size_t terms = 1;
  bool constant = false;
  std::optional<std::size_t> in_place = {};
  std::size_t limbs = 6;  // number of limbs in the ring
};

/// Returns weights that differ by limb and term; `top`: every weight is q-1.
device::WeightedSum weighted_sum(const math::Ring& ring, const PrimeList& primes, std::size_t terms, bool constant,
                                 bool top) {
  std::vector<device::LimbConstants> weights(terms, device::LimbConstants{});
  device::LimbConstants last{};
  for (std::size_t l = 0; l < primes.size(); ++l) {
    const u64 q = ring.prime(primes[l]), choice[] = {q - 1, q / 3 * 2 + 1, 1, 0, q / 5 + 2};
    for (std::size_t k = 0; k < terms; ++k) weights[k][l] = choice[top ? 0 : (3 * k + l) % 5];
    last[l] = choice[top ? 0 : l % 5];
  }
  device::WeightedSum call{.ring = nullptr, .primes = primes, .x = {}, .weights = weights, .constant = {}, .out = {}};
  if (constant) call.constant = last;
  return call;
}

OpCase weighted_case(const Elementwise& s, const Weighted& how, const std::string& more) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto ring = s.rows ? rows_of(*s.field, s.n, how.limbs) : ring_of(*s.field, s.n, how.limbs);
    const std::vector<u64> q = moduli(*ring, s.primes);
    const auto seen_input = [&](Layout layout) {
      return seen(s, rig.input(s.field->word, held(s), q, {s.batch, s.components, layout}, s.fill));
    };
    device::WeightedSum call = weighted_sum(*ring, s.primes, how.terms, how.constant, s.fill == Fill::top);
    call.ring = rig.prepare(ring);
    const Shape shape{s.batch, s.components, s.layout};
    if (how.in_place)
      call.out = seen(s, rig.in_out(s.field->word, held(s), q, shape, s.fill));
    else
      call.out = seen(s, rig.output(s.field->word, held(s), s.primes.size(), shape));
    for (std::size_t k = 0; k < how.terms; ++k) {
      if (how.in_place == k)
        call.x.push_back(View(call.out));
      else if (k == 4)  // this operand is used twice
        call.x.push_back(call.x[1]);
      else
        call.x.push_back(seen_input(k % 2 == 0 ? s.second : s.layout));
    }
    return [=, &rig] { rig.queue().enqueue(call); };
  };
  std::string name = s.name + ", " + std::to_string(how.terms) + (how.terms == 1 ? " term" : " terms");
  if (how.constant) name += " and a constant";
  if (how.in_place) name += ", in place of term " + std::to_string(*how.in_place);
  return {"weighted_sum", name + more, kind_in(*s.field), false, declare};
}

void weighted_cases(std::vector<OpCase>& cases) {
  std::size_t number = 0;
  for (const Elementwise& s : elementwise()) {
    const std::size_t terms = 1 + number % device::WeightedSum::kMost;
    cases.push_back(weighted_case(s, {.terms = terms, .constant = number % 3 == 0}, ""));
    cases.push_back(
        weighted_case(s, {.terms = 9 - terms, .constant = number % 3 != 0, .in_place = number % (9 - terms)}, ""));
    ++number;
  }
  std::vector<const Field*> fields = main_fields();
  fields.push_back(&kField32Small);
  for (const Field* f : fields) {
    for (std::size_t terms = 1; terms <= device::WeightedSum::kMost; ++terms) {
      const Elementwise s{std::string(f->name) + " n=256", f, 256, {0, 2, 5}, {2}, 2, Layout::packed, Layout::sliced};
      cases.push_back(weighted_case(s, {.terms = terms, .constant = true}, ""));
      Elementwise top = s;
      top.fill = Fill::top, top.second = Layout::packed;
      cases.push_back(weighted_case(top, {.terms = terms, .constant = true, .in_place = terms - 1}, ", all q-1"));
    }
  }
  // These cases have more limbs than one GPU launch holds weights for.
  for (const Field* f : {&kField32, &kField50, &kField60}) {
    const std::size_t limbs = f->word == Word::w32 ? 100 : 40;
    const Elementwise s{f->name, f, 64, PrimeList::range(0, limbs), {2}, 2, Layout::sliced, Layout::broadcast};
    cases.push_back(weighted_case(s, {.terms = 8, .constant = true, .limbs = limbs}, ", many limbs"));
    cases.push_back(weighted_case(s, {.terms = 8, .in_place = 1, .limbs = limbs}, ", many limbs"));
  }
}

void add_constants_in(math::Domain domain, Rig& rig, const device::RingHandle& r, const Elementwise& s, const View& a,
                      const View& out) {
  rig.queue().enqueue(device::AddConstants{r, s.primes, a, constants(r->ring(), s.primes), domain, out});
}

}  // namespace

void elementwise_cases(std::vector<OpCase>& cases) {
  binary_cases(cases, "add", call_of<device::Add>, false);
  binary_cases(cases, "sub", call_of<device::Sub>, false);
  binary_cases(cases, "mul", call_of<device::Mul>, true);
  binary_cases(cases, "mul_accumulate", call_of<device::MulAccumulate>, true);
  runs_cases(cases, "mul", call_of<device::Mul>);
  runs_cases(cases, "mul_accumulate", call_of<device::MulAccumulate>);
  unary_cases(cases, "neg", [](Rig& rig, const device::RingHandle& r, const Elementwise& s, const View& a, const View& out) {
    rig.queue().enqueue(device::Neg{r, s.primes, a, out});
  });
  unary_cases(cases, "mul_constants",
              [](Rig& rig, const device::RingHandle& r, const Elementwise& s, const View& a, const View& out) {
                rig.queue().enqueue(device::MulConstants{r, s.primes, a, constants(r->ring(), s.primes), out});
              });
  for (const math::Domain domain : {math::Domain::coefficient, math::Domain::ntt}) {
    const auto call = [=](Rig& rig, const device::RingHandle& r, const Elementwise& s, const View& a, const View& out) {
      add_constants_in(domain, rig, r, s, a, out);
    };
    unary_cases(cases, "add_constants", call, domain == math::Domain::ntt ? ", values" : kCoefficients);
  }
  weighted_cases(cases);
  unary_cases(cases, "copy", [](Rig& rig, const device::RingHandle&, const Elementwise&, const View& a, const View& out) {
    rig.queue().enqueue(device::Copy{a, out});
  });
  for (const Field* f : {&kField32, &kField60}) gather_cases(cases, *f);
  unary_cases(cases, "zero", [](Rig& rig, const device::RingHandle&, const Elementwise&, const View&, const View& out) {
    rig.queue().enqueue(device::Zero{out});
  });
}

}  // namespace heliograph::test
