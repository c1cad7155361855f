// Times of single kernels and of the composites of BFV, CKKS and BGV on one device:
//   micro [--device cpu:avx512] [--only ntt] [--seconds 0.3] [--json FILE]
// HELIOGRAPH_THREADS sets the threads. Times are medians of repeated calls, in microseconds: of one call with the wait, and
// per call of many before one wait. The two differ on asynchronous devices. Batches of many limbs are timed on asynchronous
// devices, and on other devices with --only batched.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>

#include "device/expand.h"
#include "device/kernels.h"
#include "math/primes.h"
#include "tools.h"

namespace heliograph::bench {

using device::Buffer;
using device::KeySwitchPlan;
using device::MultiplyPlan;
using device::PrimeList;
using device::View;
using device::Workspace;
using math::u32;
using math::u64;
using math::Word;

/// Amount of work of one call, printed with its time.
struct Units {
  double count = 0;
  const char* name = "";
};

struct Figure {
  std::string name;
  double microseconds, pipe_microseconds;
  std::string note;
  Units units;
};

constexpr double kStretch = 2000;  // limit of the calls enqueued before one wait, in microseconds

class Bench {
 public:
  Bench(const std::string& name, std::string only, double seconds)
      : device_(device::open_device(name)), queue_(device_->make_queue()), only_(std::move(only)), seconds_(seconds) {}

  device::Device& device() { return *device_; }
  device::Kernels& kernels() { return device_->kernels(); }
  device::Queue& queue() { return *queue_; }
  const std::vector<Figure>& figures() const { return figures_; }
  bool wanted(const std::string& name) const { return name.find(only_) != std::string::npos; }
  bool wanted_group(const std::string& word) const { return wanted(word) || asked_for(word); }
  bool asked_for(const std::string& word) const { return only_.find(word) != std::string::npos; }
  /// Returns whether the device computes in the host's memory, so that calls are synchronous.
  bool on_host() const { return device_->name() == "cpu" || device_->name() == "ref"; }

  std::byte* memory(std::size_t bytes) {
    kept_.push_back(device_->allocate(bytes, *queue_));
    return kept_.back()->address();
  }
  View view(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n) {
    return View::dense(memory(Workspace::bytes(word, items, components, limbs, n)), word, {items}, components, limbs, n);
  }
  /// Returns memory of uniform residues.
  View random(const device::RingHandle& ring, const PrimeList& primes, std::size_t items, std::size_t components) {
    const View v = view(ring->ring().word(), items, components, primes.size(), ring->ring().n());
    device::Draw draw;
    draw.object = ++objects_;
    queue().enqueue(device::Sample{ring, primes, Secret(draw), v});
    return v;
  }

  /// Prints a line; `rate(microseconds)` makes its note, such as a rate.
  void time(const std::string& name, const std::function<void()>& call, const std::function<std::string(double)>& rate = {},
            Units units = {}) {
    if (!wanted(name)) return;
    call();
    queue().wait();
    const double alone = median_of(call, 1, seconds_);
    const std::size_t repeats = static_cast<std::size_t>(std::clamp(kStretch / alone, 2.0, 1000.0));
    const double among = on_host() ? alone : median_of(call, repeats, seconds_);
    figures_.push_back({name, alone, among, note(among, rate, units), units});
    std::printf("%-84s %10.2f us, least %10.2f us", name.c_str(), alone, least_);
    if (!on_host()) std::printf("; among many %10.2f us", among);
    std::printf("  %s\n", figures_.back().note.c_str());
    std::fflush(stdout);
  }

 private:
  /// Returns the median microseconds of a call, with `repeats` calls per wait.
  double median_of(const std::function<void()>& call, std::size_t repeats, double seconds) {
    std::vector<double> times;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (times.size() < 5 || (Clock::now() < end && times.size() < 5000)) {
      const auto start = Clock::now();
      for (std::size_t i = 0; i < repeats; ++i) call();
      queue().wait();
      times.push_back(microseconds_since(start) / static_cast<double>(repeats));
    }
    if (repeats == 1) least_ = *std::min_element(times.begin(), times.end());
    return median(std::move(times));
  }
  static std::string note(double microseconds, const std::function<std::string(double)>& rate, const Units& units) {
    if (rate) return rate(microseconds);
    if (units.count == 0) return "";
    char text[64];
    std::snprintf(text, sizeof text, "%.3f M %s/s", units.count / microseconds, units.name);
    return text;
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Queue> queue_;
  std::string only_;
  double seconds_;
  double least_ = 0;  // median microseconds of the last series of single calls
  std::vector<Buffer> kept_;
  std::vector<Figure> figures_;
  u32 objects_ = 0;
};

std::function<std::string(double)> per_second(double units, const char* unit) {
  return [=](double microseconds) {
    char text[48];
    std::snprintf(text, sizeof text, "%.2f G%s/s", units / microseconds * 1e-3, unit);
    return std::string(text);
  };
}
std::function<std::string(double)> milliseconds_each(std::size_t items) {
  return [=](double microseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f ms each", microseconds * 1e-3 / static_cast<double>(items));
    return std::string(text);
  };
}
std::string suffix_of(const std::string& set, std::size_t items) {
  return ", " + set + ", " + std::to_string(items) + (items == 1 ? " item" : " items");
}

std::shared_ptr<const math::Ring> make_ring(std::size_t n, Word word,
                                            const std::vector<std::pair<int, std::size_t>>& lengths) {
  std::vector<u64> primes;
  for (const auto& [bits, count] : lengths) {
    const std::vector<u64> more = math::largest_primes(bits, count, 2 * n, primes);
    primes.insert(primes.end(), more.begin(), more.end());
  }
  return std::make_shared<math::Ring>(n, word, primes);
}

void transforms(Bench& b) {
  if (!b.wanted_group("ntt")) return;
  for (const auto& [word, bits] : {std::pair{Word::w64, 50}, {Word::w64, 60}, {Word::w32, 30}}) {
    for (int log_n = 12; log_n <= 16; ++log_n) {
      const auto ring = b.kernels().prepare(make_ring(std::size_t{1} << log_n, word, {{bits, 1}}));
      const View x = b.random(ring, {0}, 1, 1);
      const std::string name = " 2^" + std::to_string(log_n) + ", " + std::to_string(bits) + " bits";
      b.time("ntt" + name, [&] { b.queue().enqueue(device::ForwardNtt{ring, {0}, x, x}); });
      b.time("inverse ntt" + name, [&] { b.queue().enqueue(device::InverseNtt{ring, {0}, x, x}); });
    }
  }
}

void element_wise(Bench& b) {
  if (!b.wanted_group("word")) return;
  struct Case {
    const char* name;
    std::size_t n, limbs, components;
  };
  for (const Case& c : {Case{"one limb of 2^16 words", 65536, 1, 1}, {"a ciphertext of 2^15 x 12 words", 32768, 12, 2}}) {
    const auto ring = b.kernels().prepare(make_ring(c.n, Word::w64, {{50, c.limbs}}));
    const PrimeList primes = PrimeList::range(0, c.limbs);
    const View x = b.random(ring, primes, 1, c.components), y = b.random(ring, primes, 1, c.components),
               z = b.random(ring, primes, 1, c.components);
    const std::size_t bytes = c.n * c.limbs * c.components * 8;
    if (b.on_host()) {
      b.time(
          std::string("memcpy, ") + c.name, [&] { std::memcpy(z.data, x.data, bytes); },
          per_second(2.0 * static_cast<double>(bytes), "B"));
    } else {
      b.time(
          std::string("copy, ") + c.name,
          [&] {
            b.queue().enqueue(device::Copy{x, z});
          },
          per_second(2.0 * static_cast<double>(bytes), "B"));
    }
    b.time(
        std::string("add, ") + c.name,
        [&] {
          b.queue().enqueue(device::Add{ring, primes, x, y, z});
        },
        per_second(3.0 * static_cast<double>(bytes), "B"));
    b.time(std::string("add in place, ") + c.name, [&] { b.queue().enqueue(device::Add{ring, primes, z, y, z}); });
    b.time(std::string("mul, ") + c.name, [&] { b.queue().enqueue(device::Mul{ring, primes, x, y, z}); });
    b.time(std::string("mul_accumulate, ") + c.name, [&] {
      b.queue().enqueue(device::MulAccumulate{ring, primes, x, y, z});
    });
    device::Draw draw;
    b.time(
        std::string("sample uniform, ") + c.name,
        [&] {
          b.queue().enqueue(device::Sample{ring, primes, Secret(draw), z});
        },
        per_second(2.0 * static_cast<double>(bytes), "B of stream"));
    draw.distribution = device::Distribution::gaussian;
    b.time(std::string("sample gaussian, ") + c.name, [&] {
      b.queue().enqueue(device::Sample{ring, primes, Secret(draw), z});
    });
  }
}

void conversions(Bench& b) {
  if (!b.wanted_group("convert")) return;
  constexpr std::size_t n = 32768, from = 12, to = 13;
  const auto ring_data = make_ring(n, Word::w64, {{50, from + to}});
  const auto ring = b.kernels().prepare(ring_data);
  const std::vector<u64>& p = ring_data->primes();
  const auto c = b.kernels().prepare(math::extend_base({p.begin(), p.begin() + from}, {p.begin() + from, p.end()}));
  const View x = b.random(ring, PrimeList::range(0, from), 1, 1), y = b.random(ring, PrimeList::range(from, to), 1, 1);
  b.time(
      "convert 12 to 13 limbs of 50 bits, 2^15",
      [&] {
        b.queue().enqueue(device::Convert{c, x, std::nullopt, y});
      },
      per_second(static_cast<double>(n * from * to), "products"));
}

struct Shape {
  const char* name;
  std::size_t m, k, p, inputs;
};
constexpr Shape kShapes[] = {
    {"conv1 5x25x144", 5, 25, 144, 784}, {"conv2 50x125x16", 50, 125, 16, 720}, {"dense 10x800", 10, 800, 1, 800}};

device::GatheredProduct gathered(const Shape& s) {
  device::GatheredProduct g{
      .groups = 1, .outputs = s.m, .positions = s.p, .terms = s.k, .inputs = s.inputs, .weights = {}, .index = {}};
  std::mt19937 random(1);
  for (std::size_t i = 0; i < s.m * s.k; ++i) g.weights.push_back(static_cast<math::i64>(random() % 511) - 255);
  for (std::size_t i = 0; i < s.p * s.k; ++i) g.index.push_back(static_cast<u32>(random() % s.inputs));
  return g;
}

/// Times the NTT kernels; `prefix` and `suffix` are added to each printed name.
void products(Bench& b, std::size_t n, Word word, int bits, std::size_t limbs, const std::string& prefix,
              const std::string& suffix) {
  const auto ring = b.kernels().prepare(make_ring(n, word, {{bits, limbs}}));
  const PrimeList primes = PrimeList::range(0, limbs);
  for (const Shape& s : kShapes) {
    const std::string name = prefix + "product " + s.name + suffix + ", " + std::to_string(bits) + " bits";
    if (!b.wanted(name)) continue;
    const auto product = b.kernels().prepare(gathered(s));
    const View in = b.random(ring, primes, s.inputs, 1), out = b.random(ring, primes, s.m * s.p, 1);
    b.time(
        name,
        [&] {
          b.queue().enqueue(device::Product{ring, primes, product, in, out});
        },
        per_second(static_cast<double>(n * limbs * s.m * s.k * s.p), "MAC"));
  }
}

void products(Bench& b) {
  if (!b.wanted_group("product")) return;
  for (const auto& [word, bits] : {std::pair{Word::w64, 50}, {Word::w32, 30}}) products(b, 4096, word, bits, 1, "", "");
}

// ---- Batches that fill a GPU and its caches

bool wants_batches(const Bench& b, const std::string& word) {
  return (!b.on_host() && b.wanted_group(word)) || (b.asked_for("batched") && b.wanted_group("batched " + word));
}

void batched_transforms(Bench& b) {
  if (!wants_batches(b, "ntt")) return;
  constexpr std::size_t limbs = 32, items = 16;
  const PrimeList primes = PrimeList::range(0, limbs);
  const Units units{static_cast<double>(limbs * items), "limbs"};
  for (const auto& [word, bits] : {std::pair{Word::w64, 50}, {Word::w32, 30}}) {
    for (int log_n = 12; log_n <= 16; ++log_n) {
      const std::string name =
          " 2^" + std::to_string(log_n) + ", " + std::to_string(bits) + " bits, " + std::to_string(limbs * items) + " limbs";
      if (!b.wanted("batched ntt" + name) && !b.wanted("batched inverse ntt" + name)) continue;
      const auto ring = b.kernels().prepare(make_ring(std::size_t{1} << log_n, word, {{bits, limbs}}));
      const View x = b.random(ring, primes, items, 1);
      b.time(
          "batched ntt" + name,
          [&] {
            b.queue().enqueue(device::ForwardNtt{ring, primes, x, x});
          },
          {}, units);
      b.time(
          "batched inverse ntt" + name,
          [&] {
            b.queue().enqueue(device::InverseNtt{ring, primes, x, x});
          },
          {}, units);
    }
  }
}

void batched_conversions(Bench& b) {
  if (!wants_batches(b, "convert")) return;
  struct Case {
    Word word;
    int bits;
    std::size_t log_n, from, to, items;
  };
  for (const Case& c :
       {Case{Word::w64, 50, 15, 12, 13, 32}, {Word::w32, 30, 15, 20, 21, 32}, {Word::w64, 48, 14, 7, 8, 128}}) {
    const std::string name = "batched convert " + std::to_string(c.from) + " to " + std::to_string(c.to) + " limbs of " +
                             std::to_string(c.bits) + " bits, 2^" + std::to_string(c.log_n) + ", " +
                             std::to_string(c.items) + " items";
    if (!b.wanted(name)) continue;
    const std::size_t n = std::size_t{1} << c.log_n;
    const auto data = make_ring(n, c.word, {{c.bits, c.from + c.to}});
    const auto ring = b.kernels().prepare(data);
    const std::vector<u64>& p = data->primes();
    const auto middle = p.begin() + static_cast<std::ptrdiff_t>(c.from);
    const auto plan = b.kernels().prepare(math::extend_base({p.begin(), middle}, {middle, p.end()}));
    const View x = b.random(ring, PrimeList::range(0, c.from), c.items, 1),
               y = b.random(ring, PrimeList::range(c.from, c.to), c.items, 1);
    b.time(
        name,
        [&] {
          b.queue().enqueue(device::Convert{plan, x, std::nullopt, y});
        },
        per_second(static_cast<double>(n * c.items * c.from * c.to), "products"));
  }
}

void batched_products(Bench& b) {
  if (!wants_batches(b, "product")) return;
  products(b, 16384, Word::w64, 48, 7, "batched ", ", 7 limbs of 2^14");
  products(b, 16384, Word::w32, 30, 11, "batched ", ", 11 limbs of 2^14");
}

void batched_words(Bench& b) {
  if (!wants_batches(b, "word")) return;
  constexpr std::size_t n = 32768, limbs = 12, items = 64;
  const auto ring = b.kernels().prepare(make_ring(n, Word::w64, {{50, limbs}}));
  const PrimeList primes = PrimeList::range(0, limbs);
  const View x = b.random(ring, primes, items, 2), y = b.random(ring, primes, items, 2),
             z = b.random(ring, primes, items, 2);
  const double bytes = static_cast<double>(n * limbs * items * 2 * 8);
  const std::string name = ", 64 ciphertexts of 2^15 x 12 words";
  b.time(
      "batched copy" + name,
      [&] {
        b.queue().enqueue(device::Copy{x, z});
      },
      per_second(2 * bytes, "B"));
  b.time(
      "batched add" + name,
      [&] {
        b.queue().enqueue(device::Add{ring, primes, x, y, z});
      },
      per_second(3 * bytes, "B"));
  b.time(
      "batched mul" + name,
      [&] {
        b.queue().enqueue(device::Mul{ring, primes, x, y, z});
      },
      per_second(3 * bytes, "B"));
}

/// Tables of BFV's operations with one parameter set: primes Q, P and R of a ring, and the plans of a relinearization and
/// a product.
struct BfvSet {
  std::string name;
  std::size_t n;
  std::vector<std::pair<int, std::size_t>> chain, special, auxiliary;
  std::vector<std::size_t> digits;
  u64 t;
  Word word = Word::w64;
};

struct Plans {
  std::shared_ptr<const math::Ring> ring;
  KeySwitchPlan key_switch;
  MultiplyPlan multiply;
};

std::vector<u64> moduli(const math::Ring& ring, const PrimeList& list) {
  std::vector<u64> r;
  for (math::PrimeIndex p : list) r.push_back(ring.prime(p));
  return r;
}

std::size_t count(const std::vector<std::pair<int, std::size_t>>& lengths) {
  std::size_t r = 0;
  for (const auto& l : lengths) r += l.second;
  return r;
}

/// Returns a key switch without its division, over the ring's first primes: `q` primes of the chain, then `s` special
/// primes.
KeySwitchPlan switch_plan(Bench& b, const std::shared_ptr<const device::RingConstant>& ring, std::size_t q, std::size_t s,
                          const std::vector<std::size_t>& digits) {
  KeySwitchPlan k;
  k.ring = ring;
  k.chain = PrimeList::range(0, q), k.special = PrimeList::range(q, s);
  k.extended = k.key_limbs = PrimeList::range(0, q + s);
  for (std::size_t first = 0; const std::size_t limbs : digits) {
    KeySwitchPlan::Digit digit{.first = first, .count = limbs, .others = {}, .raise = nullptr};
    std::vector<u64> from, to;
    for (std::size_t l = 0; l < q + s; ++l) {
      const bool inside = l >= first && l < first + limbs;
      (inside ? from : to).push_back(ring->ring().prime(static_cast<math::PrimeIndex>(l)));
      if (!inside) digit.others.push_back(static_cast<math::PrimeIndex>(l));
    }
    digit.raise = b.kernels().prepare(math::extend_base(from, to));
    k.digits.push_back(std::move(digit));
    first += limbs;
  }
  return k;
}

Plans make_plans(Bench& b, const BfvSet& set) {
  Plans p;
  std::vector<std::pair<int, std::size_t>> all = set.chain;
  all.insert(all.end(), set.special.begin(), set.special.end());
  all.insert(all.end(), set.auxiliary.begin(), set.auxiliary.end());
  p.ring = make_ring(set.n, set.word, all);
  const auto ring = b.kernels().prepare(p.ring);
  const std::size_t q = count(set.chain), s = count(set.special), r = count(set.auxiliary);
  p.key_switch = switch_plan(b, ring, q, s, set.digits);
  KeySwitchPlan& k = p.key_switch;
  k.mod_down = b.kernels().prepare(math::divide_and_round(moduli(*p.ring, k.special), moduli(*p.ring, k.chain)));
  MultiplyPlan& m = p.multiply;
  m.ring = ring;
  m.chain = k.chain, m.auxiliary = PrimeList::range(q + s, r);
  m.extended = m.chain;
  m.extended.append(m.auxiliary);
  const std::vector<u64> chain = moduli(*p.ring, m.chain), auxiliary = moduli(*p.ring, m.auxiliary);
  m.lift = b.kernels().prepare(math::extend_base(chain, auxiliary));
  m.scale = b.kernels().prepare(math::divide_and_round(chain, auxiliary, set.t));
  m.lower = b.kernels().prepare(math::extend_base(auxiliary, chain));
  return p;
}

void bfv(Bench& b, const BfvSet& set) {
  if (!b.wanted_group("bfv")) return;
  const Plans p = make_plans(b, set);
  const std::size_t digits = set.digits.size(), batch = b.on_host() ? 4 : set.n > 16384 ? 16 : 64;
  for (const std::size_t items : {std::size_t{1}, batch}) {
    const View x = b.random(p.multiply.ring, p.multiply.chain, items, 2),
               y = b.random(p.multiply.ring, p.multiply.chain, items, 2);
    const View product = b.random(p.multiply.ring, p.multiply.chain, items, 3),
               out = b.random(p.multiply.ring, p.multiply.chain, items, 2);
    const View key = b.random(p.key_switch.ring, p.key_switch.extended, 1, 2 * digits);
    const auto multiply_plan = std::make_shared<const MultiplyPlan>(p.multiply);
    const auto switch_plan = std::make_shared<const KeySwitchPlan>(p.key_switch);
    const std::size_t multiply_bytes = device::scratch_bytes(device::ScaledTensor{multiply_plan, x, y, product}, items);
    const std::size_t switch_bytes =
        device::scratch_bytes(device::KeySwitch{.plan = switch_plan, .domain = math::Domain::coefficient}, items);
    std::byte* const scratch = b.memory(std::max(multiply_bytes, switch_bytes));
    const View add = product.with_components(0, 2), last = product.with_components(2, 1);
    const auto multiply = [&] {
      b.queue().enqueue(device::ScaledTensor{multiply_plan, x, y, product, Workspace(scratch, multiply_bytes)});
    };
    const auto relinearize = [&] {
      b.queue().enqueue(
          device::KeySwitch{switch_plan, math::Domain::coefficient, last, key, add, out, Workspace(scratch, switch_bytes)});
    };
    const std::string name = suffix_of(set.name, items);
    const auto each = milliseconds_each(items);
    b.time("bfv multiply" + name, multiply, each);
    b.time("bfv relinearize" + name, relinearize, each);
    b.time(
        "bfv multiply and relinearize" + name, [&] { multiply(), relinearize(); }, each);
  }
}

// ---- Ciphertexts in the NTT domain (CKKS, BGV)

struct TransformedSet {
  std::string name;
  std::size_t n, limbs, special;
  std::vector<std::size_t> digits;
  u64 t = 1;  // BGV's plaintext modulus, or 1 for CKKS
  int bits = 50;
  Word word = Word::w64;
  std::size_t batch = 4;
};

/// Returns a division from the first `primes` primes of a ring to its first `out`, with the result multiplied by `times`.
device::DividePlan divide_plan(Bench& b, const std::shared_ptr<const device::RingConstant>& ring, std::size_t primes,
                               std::size_t out, u64 times, u64 keep) {
  device::DividePlan d;
  d.ring = ring;
  d.primes = PrimeList::range(0, primes), d.out = PrimeList::range(0, out);
  d.kept = {{0, 0, out}}, d.divided = {{out, 0, primes - out}};
  const std::vector<u64> from = moduli(ring->ring(), PrimeList::range(out, primes - out)), to = moduli(ring->ring(), d.out);
  math::Conversion c = keep > 1 ? math::divide_keeping(from, to, keep) : math::divide_and_round(from, to, 1, times);
  std::copy(c.own.begin(), c.own.end(), d.own.begin());
  d.rest = b.kernels().prepare(math::without_own(std::move(c)));
  return d;
}

KeySwitchPlan ntt_switch_plan(Bench& b, const std::shared_ptr<const device::RingConstant>& ring, const TransformedSet& set,
                              std::size_t out) {
  KeySwitchPlan k = switch_plan(b, ring, set.limbs, set.special, set.digits);
  k.down = divide_plan(b, ring, set.limbs + set.special, out, set.t, 1);
  for (std::size_t l = 0; l < set.limbs; ++l) {
    const u64 q = ring->ring().prime(static_cast<math::PrimeIndex>(l));
    u64 weight = math::inverse_mod(set.t, q);
    for (const math::PrimeIndex p : k.special) weight = math::mul_mod(weight, ring->ring().prime(p) % q, q);
    k.weight[l] = weight;
  }
  return k;
}

void transformed(Bench& b, const TransformedSet& set) {
  if (!b.wanted_group("transformed")) return;
  const auto ring = b.kernels().prepare(make_ring(set.n, set.word, {{set.bits, set.limbs + set.special}}));
  const KeySwitchPlan same = ntt_switch_plan(b, ring, set, set.limbs);
  const auto same_plan = std::make_shared<const KeySwitchPlan>(same);
  const auto lower = std::make_shared<const device::DividePlan>(divide_plan(b, ring, set.limbs, set.limbs - 1, 1, set.t));
  const std::size_t digits = set.digits.size(), n = set.n;
  const View key = b.random(ring, same.extended, 1, 2 * digits);
  device::Permutation turn;
  turn.source = math::automorphism_table(n, 5);
  const auto permutation = b.kernels().prepare(std::move(turn));
  device::LimbConstants inverse{};
  for (std::size_t l = 0; l < set.limbs; ++l)
    inverse[l] = math::inverse_mod(set.t, ring->ring().prime(static_cast<math::PrimeIndex>(l)));
  for (const std::size_t items : {std::size_t{1}, set.batch}) {
    const View x = b.random(ring, same.chain, items, 2), y = b.random(ring, same.chain, items, 2);
    const View product = b.random(ring, same.chain, items, 3), out = b.random(ring, same.chain, items, 2),
               low = b.view(set.word, items, 2, set.limbs - 1, n), mask = b.view(set.word, items, 1, set.limbs, n);
    const std::size_t bytes =
        device::scratch_bytes(device::KeySwitch{.plan = same_plan, .domain = math::Domain::ntt, .turn = permutation}, items);
    std::byte* const scratch = b.memory(bytes);
    const View add = product.with_components(0, 2), last = product.with_components(2, 1);
    const auto multiply = [&] { b.queue().enqueue(device::Tensor{ring, same.chain, x, y, product}); };
    const auto relinearize = [&](const std::shared_ptr<const KeySwitchPlan>& plan, const View& to) {
      if (set.t > 1) b.queue().enqueue(device::MulConstants{ring, same.chain, last, inverse, last});
      b.queue().enqueue(device::KeySwitch{plan, math::Domain::ntt, last, key, add, to, Workspace(scratch, bytes)});
    };
    const auto rotate = [&] {
      const View c0 = x.with_components(0, 1), c1 = x.with_components(1, 1);
      if (set.t > 1) b.queue().enqueue(device::MulConstants{ring, same.chain, c1, inverse, mask});
      b.queue().enqueue(device::KeySwitch{same_plan, math::Domain::ntt, set.t > 1 ? mask : c1, key, c0, out,
                                          Workspace(scratch, bytes), permutation});
    };
    const std::string name = suffix_of(set.name, items);
    const auto each = milliseconds_each(items);
    b.time("transformed tensor" + name, multiply, each);
    b.time(
        "transformed key switch" + name, [&] { relinearize(same_plan, out); }, each);
    b.time(
        "transformed multiply and relinearize" + name, [&] { multiply(), relinearize(same_plan, out); }, each);
    if (set.t == 1) {
      const auto merged = std::make_shared<const KeySwitchPlan>(ntt_switch_plan(b, ring, set, set.limbs - 1));
      b.time(
          "transformed multiply, relinearize and rescale at once" + name, [&] { multiply(), relinearize(merged, low); },
          each);
    }
    b.time("transformed rotate" + name, rotate, each);
    b.time(
        "transformed divide by one prime" + name,
        [&] {
          b.queue().enqueue(device::Divide{lower, x, low, Workspace(scratch, bytes)});
        },
        each);
  }
}

void write_json(const Bench& b, const std::string& device, const std::string& path) {
  std::ofstream file(path);
  file << "{\n  \"device\": \"" << device << "\",\n  \"figures\": [\n";
  for (std::size_t i = 0; i < b.figures().size(); ++i) {
    const Figure& f = b.figures()[i];
    file << "    {\"name\": \"" << f.name << "\", \"microseconds\": " << f.microseconds
         << ", \"pipe_microseconds\": " << f.pipe_microseconds << ", \"units\": " << f.units.count << ", \"unit\": \""
         << f.units.name << "\", \"note\": \"" << f.note << "\"}" << (i + 1 < b.figures().size() ? "," : "") << "\n";
  }
  file << "  ]\n}\n";
}

int run(int argc, char** argv) {
  std::string name = "cpu", only, json;
  double seconds = 0.3;
  read_options(argc, argv,
               {{"--device", into(name)}, {"--only", into(only)}, {"--json", into(json)}, {"--seconds", into(seconds)}});
  Bench b(name, only, seconds);
  const std::string description = b.device().description();
  std::printf("%s: %s\n", b.device().name().c_str(), description.c_str());
  transforms(b);
  element_wise(b);
  conversions(b);
  products(b);
  batched_transforms(b);
  batched_words(b);
  batched_conversions(b);
  batched_products(b);
  // The auxiliary modulus R must have log R >= log Q + log t + log N + 3.
  constexpr u64 long_t = 5522259017729;
  bfv(b, {"2^15, log q 600, t 2", 32768, {{50, 12}}, {{50, 4}}, {{50, 13}}, {4, 4, 4}, 2});
  bfv(b, {"2^15, log q 600, t 43 bits", 32768, {{50, 12}}, {{50, 4}}, {{50, 14}}, {4, 4, 4}, long_t});
  bfv(b, {"2^14, log q 330, t 2", 16384, {{48, 1}, {47, 6}}, {{50, 2}}, {{50, 7}}, {2, 2, 2, 1}, 2});
  bfv(b, {"2^14, log q 330, t 43 bits", 16384, {{48, 1}, {47, 6}}, {{50, 2}}, {{50, 8}}, {2, 2, 2, 1}, long_t});
  if (!b.on_host()) {
    const std::string words = ", 30-bit primes";
    bfv(b, {"2^15, log q 600, t 2" + words, 32768, {{30, 20}}, {{30, 5}}, {{30, 21}}, {5, 5, 5, 5}, 2, Word::w32});
    bfv(b,
        {"2^14, log q 330, t 43 bits" + words, 16384, {{30, 11}}, {{30, 3}}, {{30, 13}}, {3, 3, 3, 2}, long_t, Word::w32});
  }
  transformed(b, {"CKKS 2^16, 24 + 8 limbs", 65536, 24, 8, {8, 8, 8}});
  transformed(b, {"CKKS 2^15, 20 + 7 limbs", 32768, 20, 7, {7, 7, 6}});
  transformed(b, {"BGV 2^15, 11 + 4 limbs", 32768, 11, 4, {4, 4, 3}, 65537});
  transformed(b, {"BGV 2^14, 6 + 2 limbs", 16384, 6, 2, {2, 2, 2}, 65537});
  if (!json.empty()) write_json(b, description, json);
  return 0;
}

}  // namespace heliograph::bench

int main(int argc, char** argv) { return heliograph::bench::run_and_report(heliograph::bench::run, argc, argv); }
