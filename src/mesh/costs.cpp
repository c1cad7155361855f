#include "mesh/costs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include <unistd.h>

#include "io/json.h"
#include "math/primes.h"
#include "mesh/kernels.h"

namespace heliograph::mesh {

namespace {

using Clock = std::chrono::steady_clock;
using io::Json;

constexpr std::size_t kDegree = std::size_t{1} << 14;
constexpr int kFormat = 5;  // version of the format in which measurements are cached
/// Age in seconds after which a measurement is repeated, because drivers, clocks and other load change.
constexpr double kOld = 30 * 86400.0;
/// Runnable threads per core above which other programs are presumed to disturb a measurement.
constexpr double kBusy = 0.5;

/// Costs of one ciphertext per limb of its chain. The costs were measured on H200s at N = 2^14 to 2^16 (h200.jsonl,
/// h200-levelled.jsonl, h200x2-levelled.jsonl, h200x4-flags.jsonl). Predictions were within a quarter of measurements.
struct Needs {
  double transforms;  // time on one member with fused kernels, in units of one transform
  double gathered;    // for a distribution over limbs: limbs that every member reads from others
  double transposed;  // for a distribution over limbs: limbs that move to the coefficient layout or back
  double exchanges, steps;
};
constexpr Needs needs_of(Work work) {
  // A BFV product moves 17 times the chain's limbs to the coefficient layout and back, in four conversions by transposition.
  // A key switch gathers one and a half times the chain's limbs.
  return work == Work::multiply ? Needs{50, 1.5, 17, 9, 14} : Needs{16, 1.5, 0, 3, 8};
}
/// Factor by which kernels over limbs take longer, because they are not fused.
constexpr double kUnfused = 1.5;
/// Largest ratio of a prediction and the measured time.
constexpr double kMargin = 4.0 / 3;
/// Rate of cores beside a GPU, relative to their rate of transforms. Ciphertext operations on cores read memory more often
/// than a transform does; a GPU's fused kernels read it less often. 250 products of N = 2^15 on an H200 and 32 cores took
/// 2.6 times as long as the rates of transforms predict (h200x2-unlike-before.jsonl).
constexpr double kCoresBesideGpu = 1.0 / 3;
/// Members below this part of the fastest member's rate get no share, because a share gains less than predictions differ.
constexpr double kLeastRate = 0.05;
/// Largest factor between two measurements of the same link. On busy hosts, measurements of one link differ by a factor of
/// two.
constexpr double kLinksDiffer = 3;
/// Seconds of an exchange of 1 MiB per member. A link that is slower than this is limited by its bandwidth, so it needs no
/// longer measurement.
constexpr double kSlowExchange = 5e-3;

double seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Returns the least time of several runs of `work` on a member's thread, because disturbances only add time. The measured
/// time includes the slowdown that tests set for the member.
template <class Work>
double timed(Member& member, Work work) {
  double least = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = Clock::now();
    member.worker->post(work);
    member.worker->drain();
    if (i > 1) least = std::min(least, seconds(start));
  }
  return least;
}

double transforms_a_second(Member& member, const std::shared_ptr<const math::Ring>& ring) {
  device::Device& d = *member.device;
  const auto queue = d.make_queue();
  const auto prepared = d.kernels().prepare(ring);
  const PrimeList primes = PrimeList::range(0, ring->primes().size());
  double rate = 0;
  for (std::size_t items = 4; items <= 256; items *= 8) {  // more items if the time is too short to measure
    const std::size_t limbs = items * primes.size();
    const Buffer buffer = d.allocate(limbs * kDegree * 8, *queue);
    const View v = View::dense(buffer->address(), Word::w64, {items}, 1, primes.size(), kDegree);
    queue->enqueue(Zero{v});
    const double time = timed(member, [&] {
      queue->enqueue(ForwardNtt{prepared, primes, v, v});
      queue->wait();
    });
    rate = static_cast<double>(limbs) / time;
    if (time > 1e-3) break;
  }
  return rate;
}

/// Allocates memory over the members: by items in shares, or by coefficients.
std::shared_ptr<MeshMemory> measured_memory(MeshQueue& queue, std::size_t items, std::size_t n, Layout layout) {
  const View shape = View::dense(nullptr, Word::w64, {items}, 1, 1, n);
  const State& state = queue.state();
  return std::make_shared<MeshMemory>(queue.shared_state(), shape, PrimeList{0},
                                      Placement{layout, Distribution::shares(shares(items, state.weights()))},
                                      queue.queues());
}

/// Fills memory with words that transports cannot compress.
void fill(MeshQueue& queue, const MeshMemory& memory) {
  State& state = queue.state();
  for (std::size_t m = 0; m < state.size(); ++m) {
    const Buffer& here = memory.local(m);
    if (!state.here(m) || !here) continue;
    Member& member = state.member(m);
    member.worker->post([&] {
      const std::vector<std::byte> ones(here->bytes(), std::byte{0xff});
      member.device->upload(queue.queue(m), ones, here->address());
    });
    member.worker->drain();
  }
}

struct ExchangeTime {
  double seconds, host;  // seconds: time of one of several consecutive exchanges; host: host time to post an exchange
};

/// Measures an exchange in which every member reads from all others; together they read `items` limbs.
ExchangeTime exchange_time(MeshQueue& queue, std::size_t items, std::size_t n, int repeats) {
  const auto from = measured_memory(queue, items, n, Layout::batch),
             to = measured_memory(queue, items, n, Layout::coefficient);
  View a = from->shape(), b = to->shape();
  fill(queue, *from);
  queue.enqueue(Copy{a, b});
  queue.wait();
  std::vector<double> times, host;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    for (int k = 0; k < repeats; ++k) queue.enqueue(Copy{a, b});
    host.push_back(seconds(start) / repeats);
    queue.wait();
    times.push_back(seconds(start) / repeats);
  }
  return {median(std::move(times)), median(std::move(host))};
}

/// Returns the seconds from the start to the end of a small call of `items` items.
double call_time(MeshQueue& queue, std::size_t items) {
  const auto memory = measured_memory(queue, items, 1024, Layout::batch);
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    queue.enqueue(Zero{memory->shape()});
    queue.wait();
    times.push_back(seconds(start));
  }
  return median(std::move(times));
}

/// Calls `measure(queue)` with equal weights for `members`, and weight 0 for the others.
template <class Measure>
void among(const std::shared_ptr<State>& state, const std::vector<std::size_t>& members, Measure measure) {
  const auto before = state->weigh([&](std::vector<double>& weights) {
    weights.assign(weights.size(), 0);
    for (const std::size_t m : members) weights[m] = 1;
  });
  MeshQueue queue(state);
  measure(queue);
  state->weigh([&](std::vector<double>& weights) { weights = before; });
}

/// Returns the answer of rank 0 on every rank.
bool broadcast_decision(State& state, bool answer) {
  std::byte decision{answer};
  state.transport().broadcast({&decision, 1});
  return decision != std::byte{0};
}

/// Measures the links between these members while all others are idle. `brief`: makes few short exchanges, which suffice
/// for a comparison with a cached measurement.
Links links_among(State& state, const std::vector<std::size_t>& members, bool brief = false) {
  Links links;
  among(state.shared_from_this(), members, [&](MeshQueue& queue) {
    const std::size_t count = members.size();
    links.exchange_seconds = exchange_time(queue, count, 1024, brief ? 3 : 20).seconds;
    constexpr std::size_t kLong = std::size_t{1} << 17;         // words of 1 MiB
    const auto exchange = [&](std::size_t each, int repeats) {  // `each` MiB per member
      const double time = exchange_time(queue, each * count, kLong, repeats).seconds;
      const double read =
          static_cast<double>(each * kLong * 8) * static_cast<double>(count - 1) / static_cast<double>(count);
      links.bytes_a_second = read / std::max(1e-6, time - links.exchange_seconds / 2);
      return time;
    };
    const double time = exchange(1, 1);
    if (!brief && broadcast_decision(state, time < kSlowExchange)) exchange(16, 3);
  });
  return links;
}

/// Returns whether a brief measurement differs from a cached one by more than the measurement error.
bool contradicts(const Links& brief, const Links& cached) {
  const auto apart = [](double a, double b) { return !(a < b * kLinksDiffer && b < a * kLinksDiffer); };
  return apart(brief.bytes_a_second, cached.bytes_a_second) || apart(brief.exchange_seconds, cached.exchange_seconds);
}

/// Measures the time per call of the host and of the members' threads.
void measure_calls(const std::shared_ptr<State>& state, Costs& costs) {
  double alone = 0, together = 0;
  among(state, {0}, [&](MeshQueue& queue) { alone = call_time(queue, 1); });
  among(state, range(0, state->size()), [&](MeshQueue& queue) {
    together = call_time(queue, state->size());
    costs.step_seconds = exchange_time(queue, state->size(), 1024, 5).host / static_cast<double>(state->size());
  });
  costs.spread_seconds = std::max(1e-6, together - alone);
  // A composite is about ten launches on each member's thread, which must be woken. Two products of N = 2^14 took 26 us
  // longer on two H200s than one product on one. Sixteen products of N = 2^15 took 46 us longer on four H200s than four
  // products on one.
  if (!state->member(0).device->in_host_memory())
    costs.spread_seconds = std::max(costs.spread_seconds, 25e-6 + 5e-6 * static_cast<double>(state->size()));
}

std::filesystem::path cache_file() {
  const char* const home = std::getenv("XDG_CACHE_HOME");
  if (home && *home) return std::filesystem::path(home) / "heliograph" / "mesh.json";
  const char* const user = std::getenv("HOME");
  return user && *user ? std::filesystem::path(user) / ".cache" / "heliograph" / "mesh.json" : std::filesystem::path();
}

Json read_cache() {
  try {
    std::ifstream file(cache_file());
    std::stringstream text;
    text << file.rdbuf();
    Json json = Json::parse(text.str());
    if (json.is_object() && json.unsigned_at("format") == kFormat) return json;
  } catch (const Error&) {  // a damaged cache is ignored, and the measurement repeated
  }
  return Json::object({{"format", kFormat}, {"meshes", Json::object()}});
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Returns the runnable threads per core over the last minute; 0 if unknown.
double load() {
  double last = 0;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return getloadavg(&last, 1) == 1 && cores > 0 ? last / static_cast<double>(cores) : 0;
}

/// Returns whether a cached measurement is outdated: it is old, its time is in the future, or the machine was busy then
/// and is not now.
bool is_stale(const Json& one) {
  const double age = now() - one.double_at("measured_at"), then = one.double_at("load");
  return !(age > -86400 && age < kOld) || (then > kBusy && load() < then / 2);
}

Json to_json(const Links& l) {
  return Json::object({{"bytes_a_second", l.bytes_a_second}, {"exchange_seconds", l.exchange_seconds}});
}

bool read_links(const Json& json, Links& l) {
  l = {.bytes_a_second = json.double_at("bytes_a_second"), .exchange_seconds = json.double_at("exchange_seconds")};
  return l.bytes_a_second > 0 && std::isfinite(l.bytes_a_second) && l.exchange_seconds > 0 &&
         std::isfinite(l.exchange_seconds);
}

void write_cache(const std::string& key, const Costs& c, double load_before) {
  std::error_code ignored;
  const std::filesystem::path path = cache_file();
  if (path.empty()) return;
  std::filesystem::create_directories(path.parent_path(), ignored);
  Json json = read_cache();
  Json one = Json::object({{"limbs_a_second", Json::array_of(c.limbs_a_second)},
                           {"links", to_json(c.all)},
                           {"spread_seconds", c.spread_seconds},
                           {"step_seconds", c.step_seconds},
                           {"measured_at", now()},
                           {"load", load_before}});
  if (c.inside) one["links_inside_a_host"] = to_json(*c.inside);
  json["meshes"][key] = one;
  // A rename replaces the file atomically. If writing the cache fails, the next process repeats the measurement.
  const std::filesystem::path aside = path.string() + "." + std::to_string(getpid());
  {
    std::ofstream file(aside);
    file << json.dump();
    if (!file) return;
  }
  std::filesystem::rename(aside, path, ignored);
}

/// Returns the members' weights (shares of work) for their measured rates. Members within a fifth of the mean get equal
/// weights, because devices of one kind differ less than their measurements. Members that are too slow get 0. `cores`: 1 for
/// members that compute on cores, else 0.
std::vector<double> weights_of(std::vector<double> rates, const std::vector<double>& cores) {
  if (std::ranges::count(cores, 0.0) > 0) {
    for (std::size_t m = 0; m < rates.size(); ++m) rates[m] *= cores[m] != 0 ? kCoresBesideGpu : 1;
  }
  const double least = kLeastRate * *std::ranges::max_element(rates);
  std::ranges::replace_if(
      rates, [&](double r) { return r < least; }, 0.0);
  const auto used = static_cast<double>(std::ranges::count_if(rates, [](double r) { return r > 0; }));
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / used;
  std::vector<double> weights;
  bool alike = true;
  for (double r : rates) {
    weights.push_back(mean > 0 ? r / mean : 1);
    alike = alike && (r == 0 || std::abs(weights.back() - 1) < 0.2);
  }
  for (double& w : weights) w = alike && w > 0 ? 1 : w;
  return weights;
}

bool read_costs(const Json& cache, const std::string& key, std::size_t members, Costs& costs) {
  try {
    const Json* const one = cache.at("meshes").find(key);
    if (one == nullptr || is_stale(*one)) return false;
    std::vector<double> rates;
    for (const Json& r : one->array_at("limbs_a_second", 64)) rates.push_back(r.as_double("a rate"));
    if (rates.size() != members) return false;
    costs.limbs_a_second = rates;
    costs.spread_seconds = one->double_at("spread_seconds");
    costs.step_seconds = one->double_at("step_seconds");
    for (const double seconds : {costs.spread_seconds, costs.step_seconds}) {
      if (!(seconds > 0 && std::isfinite(seconds))) return false;
    }
    if (costs.group.size() > 1 && !read_links(one->at("links_inside_a_host"), costs.inside.emplace())) return false;
    return read_links(one->at("links"), costs.all) &&
           std::all_of(rates.begin(), rates.end(), [](double v) { return v > 0 && std::isfinite(v); });
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

double Costs::transform(std::size_t n) const {
  const double rate = limbs_a_second.empty() ? 7e6 : *std::max_element(limbs_a_second.begin(), limbs_a_second.end());
  return static_cast<double>(n) / kDegree / rate;
}

double Costs::alone(Work work, std::size_t limbs, std::size_t n) const {
  return needs_of(work).transforms * static_cast<double>(limbs) * transform(n);
}

double Costs::over_limbs(Work work, std::size_t limbs, std::size_t n, std::size_t members, const Links& links) const {
  const Needs needs = needs_of(work);
  const double m = static_cast<double>(members), chain = static_cast<double>(limbs) * static_cast<double>(n * 8);
  const double bytes = (needs.transposed / m + needs.gathered) * chain * (m - 1) / m;
  const double device =
      kUnfused * alone(work, limbs, n) / m + bytes / links.bytes_a_second + needs.exchanges * links.exchange_seconds;
  return std::max(device, needs.steps * m * step_seconds);
}

bool Costs::limbs_pay(std::size_t limbs, std::size_t n) const {
  const auto pays = [&](Work work) {
    return over_limbs(work, limbs, n, limb_members(), limb_links()) * kMargin < alone(work, limbs, n);
  };
  return pays(Work::key_switch) && pays(Work::multiply);
}

std::size_t Costs::members() const {
  return static_cast<std::size_t>(std::ranges::count_if(weights, [](double w) { return w > 0; }));
}

bool Costs::limbs_stay_on_one_host() const {
  // A prime has one owner in all tensors, so this decision uses a typical size for all of them.
  constexpr std::size_t kLimbs = 16, kN = std::size_t{1} << 15;
  const auto seconds = [&](std::size_t members, const Links& links) {
    return over_limbs(Work::multiply, kLimbs, kN, members, links);
  };
  return inside && seconds(group.size(), *inside) < seconds(members(), all);
}

std::vector<double> Costs::limb_weights() const {
  if (!limbs_stay_on_one_host()) return weights;
  std::vector<double> shares(weights.size());
  for (const std::size_t m : group) shares[m] = weights[m];
  return shares;
}

namespace {

/// Returns the rates of all ranks' members. Each rank measures its own members.
std::vector<double> all_rates(State& state) {
  const auto ring = std::make_shared<const math::Ring>(kDegree, Word::w64, math::largest_primes(50, 8, 2 * kDegree));
  std::vector<double> rates(state.size());
  for (std::size_t m = 0; m < state.size(); ++m) {
    if (state.here(m)) rates[m] = state.guarded([&] { return transforms_a_second(state.member(m), ring); });
  }
  state.share(rates);
  return rates;
}

/// Returns 1 for members that compute on cores and 0 for others, on all ranks.
std::vector<double> cores_of(State& state) {
  std::vector<double> cores(state.size());
  for (std::size_t m = 0; m < state.size(); ++m) {
    if (state.here(m)) cores[m] = state.member(m).device->in_host_memory();
  }
  state.share(cores);
  return cores;
}

/// Gives all members with equal descriptions the best rate among them, because other load may have disturbed some
/// measurements.
void equalize(std::vector<double>& rates, const std::vector<std::string>& descriptions) {
  std::map<std::string, double> best;
  for (std::size_t m = 0; m < rates.size(); ++m) best[descriptions[m]] = std::max(best[descriptions[m]], rates[m]);
  for (std::size_t m = 0; m < rates.size(); ++m) rates[m] = best[descriptions[m]];
}

/// Copies rank 0's numbers to every rank, because all ranks must choose equally.
void agree(State& state, Costs& costs) {
  std::vector<double> numbers = costs.limbs_a_second;
  for (const Links& l : {costs.all, costs.inside.value_or(Links())})
    numbers.insert(numbers.end(), {l.bytes_a_second, l.exchange_seconds});
  numbers.insert(numbers.end(), {costs.spread_seconds, costs.step_seconds});
  state.transport().broadcast(std::as_writable_bytes(std::span(numbers)));
  const auto take = [&](Links& l) {
    l.exchange_seconds = numbers.back(), numbers.pop_back();
    l.bytes_a_second = numbers.back(), numbers.pop_back();
  };
  costs.step_seconds = numbers.back(), numbers.pop_back();
  costs.spread_seconds = numbers.back(), numbers.pop_back();
  Links inside;
  take(inside), take(costs.all);
  if (costs.group.size() > 1) costs.inside = inside;
  costs.limbs_a_second = numbers;
}

}  // namespace

Costs measure(const std::shared_ptr<State>& state, const std::vector<std::string>& descriptions,
              const std::vector<std::string>& kinds, const std::vector<std::size_t>& group) {
  std::string key;
  for (const std::string& d : descriptions) key += (key.empty() ? "" : "; ") + d;
  Costs costs;
  costs.measured = true;
  costs.group = group;
  const bool chief = state->transport().rank() == 0;
  const std::vector<std::size_t> members = range(0, state->size());
  bool known = broadcast_decision(*state, chief && read_costs(read_cache(), key, state->size(), costs));
  if (known && state->over_ranks()) {
    // The network may have changed, or it connects other hosts with the same names.
    const Links now = links_among(*state, members, true);
    known = broadcast_decision(*state, !contradicts(now, costs.all));
  }
  if (!known) {
    const double load_before = load();
    costs.limbs_a_second = all_rates(*state);
    costs.all = links_among(*state, members);
    costs.inside.reset();
    if (group.size() > 1) costs.inside = links_among(*state, group);
    measure_calls(state, costs);
    if (chief) write_cache(key, costs, load_before);
  }
  costs.limbs_a_second.resize(state->size());
  equalize(costs.limbs_a_second, kinds);
  agree(*state, costs);
  costs.weights = weights_of(costs.limbs_a_second, cores_of(*state));
  return costs;
}

std::vector<std::string> report(State& state) {
  std::vector<std::string> lines;
  const Costs& c = state.costs();
  char text[160];
  for (std::size_t m = 0; m < state.size(); ++m) {
    device::Device& d = *state.member(m).device;
    std::string line = d.report().front();
    std::snprintf(text, sizeof text, ", share %.2f", c.weights[m]);
    line += c.weights[m] > 0 ? text : ", no share, because it is too slow";
    if (!c.limbs_a_second.empty()) {
      std::snprintf(text, sizeof text, ", %.3g transforms of 2^14 words a second", c.limbs_a_second[m]);
      line += text;
    }
    lines.push_back(std::move(line));
  }
  bool staged = false;
  for (std::size_t a = 0; a < state.size(); ++a) {
    for (std::size_t b = 0; b < state.size(); ++b)
      staged = staged || (state.here(a) && state.here(b) ? !state.reaches(a, b) : state.transport().is_staged());
  }
  const auto say = [&](const char* which, const Links& l, const std::string& how) {
    std::snprintf(text, sizeof text, "%s: %.3g GB/s read by each, %.3g us an exchange", which, l.bytes_a_second / 1e9,
                  l.exchange_seconds * 1e6);
    lines.push_back(text + how);
  };
  say(c.inside ? "links between hosts" : "links", c.all,
      std::string(", ") + (staged ? "through the host" : "direct") + (c.measured ? "" : " (assumed)"));
  if (c.inside) say("links inside a host", *c.inside, c.limb_weights() == c.weights ? "" : "; limbs stay inside one");
  return lines;
}

}  // namespace heliograph::mesh
