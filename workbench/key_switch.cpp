// Times a whole key switch on any device: primes below 2^30 in 32-bit words, and below 2^50 or 2^60 in 64-bit words, at the same log Q,
// log P and number of digits. Times the NTTs of the same rings too. Keys and inputs are uniform residues. The random
// values are the same on every device, so equal digests mean equal results.
//
//   key_switch DEVICE OUT.json [REPEATS=25] [SHARE=1]
//
// DEVICE is a value of HELIOGRAPH_DEVICE (cuda, cpu, cpu:avx512, ...); HELIOGRAPH_THREADS applies. SHARE divides the 256 MiB of operands,
// for small machines.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "device/expand.h"
#include "device/kernels.h"
#include "math/primes.h"
#include "report.h"

namespace workbench {
namespace {

using device::PrimeList;
using device::View;
using device::Workspace;
using math::u64;
using math::Word;

constexpr std::size_t kWorkedThrough = std::size_t{256} << 20;  // more than any cache

struct Edition {
  const char* name;
  Word word;
  int prime_bits;
};
constexpr Edition kEditions[] = {
    {"w32", Word::w32, 30}, {"w64, 50-bit primes", Word::w64, 50}, {"w64, 60-bit primes", Word::w64, 60}};

struct Size {
  std::size_t n;
  int log_q, log_p;
};
constexpr Size kSizes[] = {{1 << 15, 600, 200}, {1 << 14, 330, 100}};
constexpr std::size_t kDigits = 3, kBatches[] = {1, 16};

double log2_product(const std::vector<u64>& q) {
  double sum = 0;
  for (u64 p : q) sum += std::log2(static_cast<double>(p));
  return sum;
}

/// A device, its queue and the buffers of a measurement.
class Bench {
 public:
  Bench(const std::string& name, int repeats, std::size_t share)
      : device_(device::open_device(name)), queue_(device_->make_queue()), repeats_(repeats), share_(share) {}

  device::Device& device() { return *device_; }
  device::Kernels& kernels() { return device_->kernels(); }
  device::Queue& queue() { return *queue_; }
  /// Returns the number of operands of `bytes` bytes that exceed the caches.
  std::size_t copies(std::size_t bytes) const {
    return std::max<std::size_t>(1, (kWorkedThrough / share_ + bytes - 1) / bytes);
  }

  std::byte* memory(std::size_t bytes) {
    kept_.push_back(device_->allocate(bytes, *queue_));
    return kept_.back()->address();
  }
  void forget() {
    queue_->wait();
    kept_.clear();
  }
  View view(const math::Ring& ring, const std::vector<std::size_t>& batch, std::size_t components, std::size_t limbs) {
    std::size_t items = 1;
    for (std::size_t b : batch) items *= b;
    return View::dense(memory(Workspace::bytes(ring.word(), items, components, limbs, ring.n())), ring.word(), batch,
                       components, limbs, ring.n());
  }
  View uniform(const device::RingHandle& ring, const PrimeList& primes, const std::vector<std::size_t>& batch,
               std::size_t components, device::u32 object) {
    const View v = view(ring->ring(), batch, components, primes.size());
    device::Draw draw;
    draw.object = object;
    queue().enqueue(device::Sample{ring, primes, heliograph::Secret(draw), v});
    return v;
  }

  /// Median seconds: `alone` of one call with its wait, `among` of one of several calls with one wait at the end.
  struct Times {
    double alone, among;
  };
  template <class Call>
  Times time(Call call) {
    using Clock = std::chrono::steady_clock;
    std::size_t next = 0;
    const auto calls = [&](int count) {
      const auto begin = Clock::now();
      for (int i = 0; i < count; ++i) call(next++);
      queue_->wait();
      return std::chrono::duration<double>(Clock::now() - begin).count() / count;
    };
    queue_->wait();
    for (int i = 0; i < 3; ++i) calls(1);
    std::vector<double> alone, among;
    for (int i = 0; i < repeats_; ++i) alone.push_back(calls(1));
    const int many = static_cast<int>(std::clamp(5e-3 / median(alone), 1.0, 100.0));
    for (int i = 0; i < repeats_; ++i) among.push_back(calls(many));
    return {median(alone), median(among)};
  }

  /// Returns the FNV-1a hash of a dense view's bytes, eight at a time.
  std::string digest(const View& v) {
    std::vector<std::byte> bytes(v.words() * v.word_size());
    device_->download(*queue_, v.data, bytes);
    u64 hash = 0xcbf29ce484222325ULL;
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      u64 word = 0;
      std::memcpy(&word, bytes.data() + i, 8);
      hash = (hash ^ word) * 0x100000001b3ULL;
    }
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::Buffer> kept_;
  int repeats_;
  std::size_t share_;
};

/// Builds the plan as rlwe::Context does: digits of consecutive chain primes, nearly equal in number.
device::KeySwitchPlan make_plan(device::Kernels& kernels, device::RingHandle ring, const std::vector<u64>& chain,
                                const std::vector<u64>& special) {
  device::KeySwitchPlan plan{.ring = std::move(ring),
                             .chain = PrimeList::range(0, chain.size()),
                             .special = PrimeList::range(chain.size(), special.size())};
  plan.extended = plan.key_limbs = PrimeList::range(0, chain.size() + special.size());
  std::vector<u64> extended = chain;
  extended.insert(extended.end(), special.begin(), special.end());
  for (std::size_t j = 0, first = 0; j < kDigits; ++j) {
    device::KeySwitchPlan::Digit digit{.first = first, .count = (chain.size() - first + kDigits - j - 1) / (kDigits - j)};
    std::vector<u64> inside, outside;
    for (std::size_t l = 0; l < extended.size(); ++l) {
      const bool own = l >= first && l < first + digit.count;
      (own ? inside : outside).push_back(extended[l]);
      if (!own) digit.others.push_back(static_cast<math::PrimeIndex>(l));
    }
    digit.raise = kernels.prepare(math::extend_base(inside, outside));
    first += digit.count;
    plan.digits.push_back(std::move(digit));
  }
  plan.mod_down = kernels.prepare(math::divide_and_round(special, chain));
  return plan;
}

struct Set {
  const Edition& edition;
  const Size& size;
  std::vector<u64> chain, special;

  std::size_t extended() const { return chain.size() + special.size(); }
  Record& note(Record& r) const {
    return r.add("edition", edition.name)
        .add("n", size.n)
        .add("log_q", log2_product(chain))
        .add("log_p", log2_product(special))
        .add("chain_primes", chain.size())
        .add("special_primes", special.size());
  }
};

void time_transforms(Bench& bench, Report& report, const Set& set, const device::RingHandle& ring) {
  const PrimeList primes = PrimeList::range(0, set.chain.size());
  const std::size_t bytes = Workspace::bytes(set.edition.word, 1, 1, primes.size(), set.size.n);
  const std::size_t items = bench.copies(bytes);
  const View x = bench.uniform(ring, primes, {items}, 1, 1);
  for (const bool inverse : {false, true}) {
    const Bench::Times t = bench.time([&](std::size_t) {
      inverse ? bench.queue().enqueue(device::InverseNtt{ring, primes, x, x})
              : bench.queue().enqueue(device::ForwardNtt{ring, primes, x, x});
    });
    const double limbs = static_cast<double>(items * primes.size()) / t.among;
    const double bits =
        limbs * log2_product(set.chain) / static_cast<double>(primes.size()) * static_cast<double>(set.size.n);
    std::printf("%-20s %6zu %s NTT, %zu x %zu limbs: %.0f limbs/s, %.4f Tbit/s\n", set.edition.name, set.size.n,
                inverse ? "inverse" : "forward", items, primes.size(), limbs, bits * 1e-12);
    set.note(report.row("transforms"))
        .add("direction", inverse ? "inverse" : "forward")
        .add("items", items)
        .add("limbs", primes.size())
        .add("seconds", t.among)
        .add("limbs_per_second", limbs)
        .add("modulus_bits_per_second", bits);
  }
  bench.forget();
}

void time_key_switch(Bench& bench, Report& report, const Set& set, const device::KeySwitchPlan& plan, std::size_t items) {
  const math::Ring& ring = plan.ring->ring();
  const std::size_t components = 2 * plan.digits.size();
  const std::size_t bytes = Workspace::bytes(ring.word(), 1, components, set.extended(), ring.n()) +
                            Workspace::bytes(ring.word(), items, 3, set.chain.size(), ring.n());
  std::vector<View> keys, inputs, outputs;
  for (std::size_t i = 0, copies = bench.copies(bytes); i < copies; ++i) {
    const auto object = static_cast<device::u32>(2 * i);
    keys.push_back(bench.uniform(plan.ring, plan.extended, {}, components, object));
    inputs.push_back(bench.uniform(plan.ring, plan.chain, {items}, 1, object + 1));
    outputs.push_back(bench.view(ring, {items}, 2, set.chain.size()));
  }
  const auto shared = std::make_shared<const device::KeySwitchPlan>(plan);
  const std::size_t scratch =
      device::scratch_bytes(device::KeySwitch{.plan = shared, .domain = math::Domain::coefficient}, items);
  std::byte* const workspace = bench.memory(scratch);
  const auto call = [&](std::size_t i) {
    const std::size_t k = i % keys.size();
    bench.queue().enqueue(device::KeySwitch{shared, math::Domain::coefficient, inputs[k], keys[k], std::nullopt, outputs[k],
                                            Workspace(workspace, scratch)});
  };
  call(0);
  const std::string digest = bench.digest(outputs[0]);
  const Bench::Times t = bench.time(call);
  const double each = t.among / static_cast<double>(items) * 1e6;
  std::printf("%-20s %6zu key switch, %zu + %zu primes, %2zu together: %9.1f us a lone call, %9.1f us each   %s\n",
              set.edition.name, set.size.n, set.chain.size(), set.special.size(), items, t.alone * 1e6, each,
              digest.c_str());
  set.note(report.row("key_switches"))
      .add("digits", plan.digits.size())
      .add("items", items)
      .add("operands_in_turn", keys.size())
      .add("key_bytes", Workspace::bytes(ring.word(), 1, components, set.extended(), ring.n()))
      .add("seconds_a_call_and_wait", t.alone)
      .add("seconds_a_call_among_many", t.among)
      .add("microseconds_each", each)
      .add("digest", digest);
  bench.forget();
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s DEVICE OUT.json [REPEATS=25] [SHARE=1]\n", argv[0]);
    return 2;
  }
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 25;
  const std::size_t share = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;
  if (repeats <= 0 || share == 0) throw std::runtime_error("REPEATS and SHARE must be positive");
  Bench bench(argv[1], repeats, share);
  std::printf("%s\n", bench.device().description().c_str());
  Report report("key_switch");
  report.settings.add("device", bench.device().name())
      .add("description", bench.device().description())
      .add("repeats", repeats)
      .add("share", share);
  for (const Size& size : kSizes) {
    for (const Edition& edition : kEditions) {
      Set set{edition, size, math::prime_chain(size.n, size.log_q, edition.prime_bits), {}};
      set.special = math::prime_chain(size.n, size.log_p, edition.prime_bits, set.chain);
      std::vector<u64> all = set.chain;
      all.insert(all.end(), set.special.begin(), set.special.end());
      const auto ring = bench.kernels().prepare(std::make_shared<const math::Ring>(size.n, edition.word, all));
      const device::KeySwitchPlan plan = make_plan(bench.kernels(), ring, set.chain, set.special);
      time_transforms(bench, report, set, ring);
      for (const std::size_t items : kBatches) time_key_switch(bench, report, set, plan, items);
    }
  }
  report.write(argv[2]);
  return 0;
}

}  // namespace
}  // namespace workbench

int main(int argc, char** argv) {
  return workbench::told("key_switch", [&] { return workbench::run(argc, argv); });
}
