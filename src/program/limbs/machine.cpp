#include "program/limbs/machine.h"

#include <algorithm>

#include "device/work.h"
#include "math/modulus.h"

namespace heliograph::program::limbs {

namespace {

using device::LimbSumList;
using math::Domain;

Domain domain_of(const Value& v) { return v.coefficients ? Domain::coefficient : Domain::ntt; }

/// Returns a view of the same memory for every item of a batch.
View for_all(View v, std::size_t items) {
  v.axes = 1;
  v.shape[0] = items, v.stride[0] = 0;
  return v;
}

}  // namespace

Machine::Machine(std::shared_ptr<const Linked> program, const Session& home, std::vector<const Session*> devices, Ring ring,
                 std::size_t items, Options options)
    : program_(std::move(program)),
      home_(home),
      devices_(std::move(devices)),
      ring_(std::move(ring)),
      items_(items),
      options_(options),
      slots_(devices_.size()),
      away_(devices_.size()),
      sources_(program_->sources.size()),
      given_(program_->items.size()),
      scalars_(program_->sources.size()),
      scratch_(devices_.size()) {
  const Linked& p = *program_;
  const auto modulus = [&](std::uint16_t k) { return ring_.ring->ring().prime(ring_.primes[k]); };
  const auto moduli = [&](const std::vector<std::uint16_t>& list) {
    std::vector<u64> all;
    for (const std::uint16_t k : list) all.push_back(modulus(k));
    return all;
  };
  const auto everywhere = [&](const auto& constant) {
    for (std::size_t d = 0; d < p.devices; ++d) devices_[d]->kernels().prepare(*constant);
  };
  everywhere(ring_.ring);
  for (const Bases& b : p.conversions) {
    conversions_.push_back(home_.kernels().prepare(math::extend_base(moduli(b.from), moduli(b.to))));
    everywhere(conversions_.back());
  }
  for (const Bases& b : p.divisors) {
    const u64 q = modulus(b.to[0]);
    u64 product = 1;
    for (const u64 d : moduli(b.from)) product = math::mul_mod(product, d % q, q);
    divisors_.push_back(math::inverse_mod(product, q));
  }
  turns_.resize(p.turns.size());
  for (const Action& a : p.actions) {
    if (a.kind != Action::Kind::turn) continue;
    const Domain domain = domain_of(p.values[a.a]);
    device::PermutationHandle& handle = turns_[a.table][static_cast<std::size_t>(domain)];
    if (handle) continue;
    handle = ring_.turn(p.turns[a.table], domain);
    everywhere(handle);
  }
  for (u32 d = 0; d < devices_.size(); ++d) {
    if (p.slots[d] > 0) slots_[d] = allocated(d, p.slots[d], 1, items_);
  }
  // Devices other than `home` have copies of the sources, limb by limb.
  std::vector<std::array<std::size_t, 2>> counts(devices_.size());
  for (const Value& v : p.values) {
    if (v.kind != Value::Kind::source) continue;
    const Source& s = p.sources[v.at];
    if (s.kind == 's') continue;
    if (!at_home(v.device)) {
      sources_[v.at].component = counts[v.device][s.kind == 'i' ? 1 : 0]++;
    } else if (s.kind == 'i') {
      if (given_[s.which].n == 0) given_[s.which] = allocated(v.device, 2, p.items[s.which].level, items_);
      sources_[v.at] = {given_[s.which], s.component, s.prime};
    }
  }
  for (u32 d = 0; d < devices_.size(); ++d) {
    if (counts[d][0] > 0) away_[d][0] = for_all(allocated(d, counts[d][0], 1, 1).item(0), items_);
    if (counts[d][1] > 0) away_[d][1] = allocated(d, counts[d][1], 1, items_);
  }
  for (const Value& v : p.values) {
    if (v.kind == Value::Kind::source && !at_home(v.device) && p.sources[v.at].kind != 's')
      sources_[v.at].whole = away_[v.device][p.sources[v.at].kind == 'i' ? 1 : 0];
  }
}

Machine::~Machine() = default;

View Machine::allocated(u32 device, std::size_t components, std::size_t limbs, std::size_t items) const {
  const math::Ring& ring = ring_.ring->ring();
  const View shape = View::dense(nullptr, ring.word(), {items}, components, limbs, ring.n());
  return shape.in(devices_[device]->allocate(shape, device::PrimeList::range(0, limbs)));
}

std::size_t Machine::bytes() const {
  std::size_t all = 0;
  const auto add = [&](const View& v) { all += v.n == 0 ? 0 : v.memory->bytes(); };
  std::for_each(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(program_->devices), add);
  std::for_each(given_.begin(), given_.end(), add);
  for (const auto& both : away_) std::for_each(both.begin(), both.end(), add);
  return all;
}

std::map<std::string, std::size_t> Machine::calls() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::size_t> all;
  for (const Step& s : steps_) ++all[s.from != kNone ? "move" : device::name(s.call)];
  return all;
}

device::Count Machine::work() const {
  const std::lock_guard lock(mutex_);
  device::Count all;
  for (const Step& s : steps_) {
    if (s.from != kNone) continue;
    const device::Count one = device::work(s.call);
    all.bytes_read += one.bytes_read, all.bytes_written += one.bytes_written, all.products += one.products;
  }
  return all;
}

Machine::Spilled Machine::spilled() const {
  const std::lock_guard lock(mutex_);
  Spilled all;
  if (devices_.size() == program_->devices) return all;
  all.bytes = slots_.back().memory->bytes();
  for (const Step& s : steps_) {
    if (s.from == kNone || (s.device != program_->devices && s.from != program_->devices)) continue;
    for (const device::Piece& p : std::get<device::Gather>(s.call).pieces)
      (s.device == program_->devices ? all.out : all.in) += p.to.bytes();
  }
  return all;
}

Machine::Place Machine::place(u32 value) const {
  const Value& v = program_->values[value];
  if (v.kind == Value::Kind::source) return sources_[v.at];
  return {slots_[v.device], v.at, 0};
}

View Machine::view_of_group(u32 group) const {
  const Group& g = program_->groups[group];
  View v = slots_[g.device].with_components(g.at, 1);
  v.limbs = g.members.size(), v.limb_stride = v.component_stride;
  return v;
}

u32 Machine::device_of(const Task& t) const {
  return t.kind == Task::Kind::convert ? program_->groups[t.to].device : program_->values[t.to].device;
}

void Machine::bind(char kind, u32 which, const View& whole,
                   const std::function<std::pair<std::size_t, std::size_t>(u32, std::uint16_t)>& place_of) {
  const std::lock_guard lock(mutex_);
  built_ = false;
  std::vector<std::byte> words;
  for (const Value& v : program_->values) {
    if (v.kind != Value::Kind::source) continue;
    const Source& s = program_->sources[v.at];
    if (s.kind != kind || s.which != which) continue;
    const auto [component, limb] = place_of(s.component, s.prime);
    require<MismatchError>(component < whole.components && limb < whole.limbs,
                           "a bound operand lacks a limb that the program reads");
    const Place place{for_all(whole, items_), component, limb};
    if (at_home(v.device)) {
      sources_[v.at] = place;
    } else {
      const View part = whole.with_components(component, 1).with_limbs(limb, 1);
      words.resize(part.bytes());
      home_.download(part, words);
      devices_[v.device]->upload(words, sources_[v.at].view().item(0));
    }
  }
}

namespace {

/// Returns the index of a prime in a list; the list's length if it is not there.
std::size_t place_in(std::span<const std::uint16_t> primes, std::uint16_t prime) {
  return static_cast<std::size_t>(std::find(primes.begin(), primes.end(), prime) - primes.begin());
}

}  // namespace

void Machine::bind_key(u32 which, const View& pairs) {
  const Key& key = program_->keys[which];
  std::vector<std::uint16_t> primes;
  for (std::size_t p = 0; p < key.level; ++p) primes.push_back(static_cast<std::uint16_t>(p));
  for (std::size_t p = 0; p < key.extension; ++p) primes.push_back(static_cast<std::uint16_t>(kPrimes - 1 - p));
  bind('k', which, pairs, [&](u32 component, std::uint16_t prime) { return std::pair(component, place_in(primes, prime)); });
}
void Machine::bind_plaintext(u32 item, const View& limbs, std::span<const std::uint16_t> primes) {
  bind('p', item, limbs, [&](u32, std::uint16_t prime) { return std::pair(0, place_in(primes, prime)); });
}
void Machine::bind_plaintext(u32 item, const View& all, std::size_t first, std::span<const std::uint16_t> primes) {
  bind('p', item, all, [&](u32, std::uint16_t prime) {
    const std::size_t place = place_in(primes, prime);
    return std::pair(place < primes.size() ? first + place : all.components, std::size_t{0});
  });
}

void Machine::bind_scalar(u32 item, std::span<const u64> residues) {
  const std::lock_guard lock(mutex_);
  built_ = false;
  for (std::size_t k = 0; k < program_->sources.size(); ++k) {
    const Source& s = program_->sources[k];
    if (s.kind == 's' && s.which == item) scalars_[k] = residues[s.prime];
  }
}

namespace {

/// Extends `row` by the limb `next`, if `next` follows it in memory.
bool extend(View& row, const View& next) {
  const auto word = static_cast<std::ptrdiff_t>(row.word_size());
  const std::ptrdiff_t bytes = next.data - row.data;
  const std::ptrdiff_t each = bytes / static_cast<std::ptrdiff_t>(row.limbs);
  const bool alike = next.axes == row.axes && next.shape == row.shape && next.stride == row.stride && next.n == row.n;
  if (!alike || each * static_cast<std::ptrdiff_t>(row.limbs) != bytes || each % word != 0) return false;
  const std::ptrdiff_t stride = each / word;
  if (stride < static_cast<std::ptrdiff_t>(row.n)) return false;
  if (row.limbs > 1 && row.limb_stride != static_cast<std::size_t>(stride)) return false;
  row.limb_stride = static_cast<std::size_t>(stride), ++row.limbs;
  return true;
}

/// Appends a copy of one limb to the last piece if possible, else as a new piece.
void add_piece(device::Gather& copies, const View& from, const View& to) {
  if (!copies.pieces.empty()) {
    device::Piece& last = copies.pieces.back();
    View more_from = last.from, more_to = last.to;
    if (extend(more_from, from) && extend(more_to, to)) {
      last.from = more_from, last.to = more_to;
      return;
    }
  }
  copies.pieces.push_back({from, to});
}

}  // namespace

/// Copies pieces from another session, ordered with the work of both queues. Only the mesh itself can read a mesh's
/// addresses.
void Machine::bring_over(const Session& giver, const Session& taker, const device::Gather& pieces) const {
  if (&giver == &taker) {
    taker.enqueue(pieces);
    return;
  }
  const bool away = !at_home(0) && (&giver == &home_ || &taker == &home_);
  if (!away && taker.device().reaches(giver.device())) {
    taker.queue().after(*giver.queue().record());
    taker.enqueue(pieces);
    giver.queue().after(*taker.queue().record());  // the work after this call may overwrite the source
    return;
  }
  for (const device::Piece& p : pieces.pieces) {
    for (std::size_t l = 0; l < p.from.limbs; ++l) {
      const View from = p.from.with_limbs(l, 1), to = p.to.with_limbs(l, 1);
      std::vector<std::byte> words(from.item(0).bytes());
      for (std::size_t k = 0; k < from.items(); ++k) {
        giver.download(from.item(k), words);
        taker.upload(words, to.item(k));
      }
    }
  }
}

bool Machine::reach_each_other() const {
  for (const Session* s : devices_) {
    for (const Session* other : devices_) {
      if (s != other && !s->device().reaches(other->device())) return false;
    }
  }
  return true;
}

void Machine::bring(const std::vector<View>& given) {
  device::Gather copies;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (given_[i].n == 0) continue;
    copies.pieces.push_back({given[i].with_limbs(0, given_[i].limbs), given_[i]});
  }
  if (!copies.pieces.empty()) home_.enqueue(copies);
  std::vector<device::Gather> away(devices_.size());
  for (const Value& v : program_->values) {
    if (v.kind != Value::Kind::source || at_home(v.device)) continue;
    const Source& s = program_->sources[v.at];
    if (s.kind != 'i') continue;
    add_piece(away[v.device], given[s.which].with_components(s.component, 1).with_limbs(s.prime, 1), sources_[v.at].view());
  }
  for (u32 d = 0; d < away.size(); ++d) {
    if (!away[d].pieces.empty()) bring_over(home_, *devices_[d], away[d]);
  }
}

void Machine::hand_out(const std::vector<View>& results) const {
  std::vector<device::Gather> from(devices_.size());
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Result& result = program_->results[r];
    for (std::size_t i = 0; i < result.values.size(); ++i) {
      add_piece(from[program_->values[result.values[i]].device], view(result.values[i]),
                results[r].with_components(i / result.level, 1).with_limbs(i % result.level, 1));
    }
  }
  for (u32 d = 0; d < from.size(); ++d) {
    if (!from[d].pieces.empty()) bring_over(*devices_[d], home_, from[d]);
  }
}

/// A list of sums for one call, under construction.
class Machine::Sums {
 public:
  explicit Sums(const Machine& machine) : m_(machine), call_{.ring = machine.ring_.ring} {}

  /// Adds a task. Returns false without changes if the call would have too many operands with the added task.
  bool add(const Task& t) {
    const std::size_t from = call_.from.size(), to = call_.to.size(), turns = call_.turns.size(), terms = list_.terms.size();
    const Linked& p = *m_.program_;
    const Value& value = p.values[t.to];
    const math::PrimeIndex prime = m_.ring_.primes[value.prime];
    const u64 q = m_.ring_.ring->ring().prime(prime);
    LimbSumList::Result r{.to = at(call_.to, m_.place(t.to)), .prime = prime, .first = static_cast<u32>(terms)};
    for (u32 k = 0; k < t.count; ++k) {
      const Summand& s = p.summands[t.first + k];
      u64 weight = 1;
      if (s.scalar != kNone) weight = m_.scalars_[p.values[s.scalar].at];
      if (s.divisor != kNone) weight = math::mul_mod(weight, m_.divisors_[s.divisor], q);
      if (s.negative) weight = math::neg_mod(weight, q);
      if (s.a == kNone) {
        r.constant = math::add_mod(r.constant, weight, q);
        continue;
      }
      LimbSumList::Term term{.a = read(s.a), .b = {}, .weight = weight};
      if (s.b != kNone) term.b = read(s.b);
      if (s.turn != kNone) term.turn = turn(m_.turns_[s.turn][static_cast<std::size_t>(domain_of(p.values[s.a]))]);
      list_.terms.push_back(term);
      ++r.count;
    }
    if (call_.from.size() > device::LimbSums::kMostFrom || call_.turns.size() > device::LimbSums::kMostTurns) {
      call_.from.resize(from), call_.to.resize(to), call_.turns.resize(turns), list_.terms.resize(terms);
      return false;
    }
    list_.results.push_back(r);
    return true;
  }
  device::LimbSums finish(const Session& session) {
    call_.sums = session.kernels().prepare(std::move(list_));
    return std::move(call_);
  }

 private:
  LimbSumList::At read(u32 value) {
    LimbSumList::At found = at(call_.from, m_.place(value));
    const Value& v = m_.program_->values[value];
    // A run reads a key or plaintext once; later steps read intermediate values.
    if (v.kind == Value::Kind::source && m_.options_.hints) {
      const char kind = m_.program_->sources[v.at].kind;
      found.once = kind == 'k' || kind == 'p';
    }
    return found;
  }
  template <class Views>
  static LimbSumList::At at(Views& views, const Place& place) {
    const auto found = std::find_if(views.begin(), views.end(), [&](const View& v) {
      return v.data == place.whole.data && v.axes == place.whole.axes && v.stride[0] == place.whole.stride[0] &&
             v.component_stride == place.whole.component_stride && v.limb_stride == place.whole.limb_stride;
    });
    const auto number = static_cast<u32>(found - views.begin());
    if (found == views.end()) views.push_back(place.whole);
    return {number, static_cast<u32>(place.component), static_cast<u32>(place.limb)};
  }
  u32 turn(const device::PermutationHandle& handle) {
    const auto found = std::find(call_.turns.begin(), call_.turns.end(), handle);
    const auto number = static_cast<u32>(found - call_.turns.begin());
    if (found == call_.turns.end()) call_.turns.push_back(handle);
    return number;
  }

  const Machine& m_;
  device::LimbSums call_;
  LimbSumList list_;
};

namespace {

/// Extends `all` by the component `next`, if `next` follows it in memory.
bool extend_components(View& all, const View& next) {
  const std::ptrdiff_t bytes = next.data - all.data, count = static_cast<std::ptrdiff_t>(all.components),
                       each = bytes / count, word = static_cast<std::ptrdiff_t>(all.word_size());
  if (each * count != bytes || each % word != 0 || each / word < static_cast<std::ptrdiff_t>(all.limbs * all.limb_stride))
    return false;
  if (count > 1 && all.component_stride != static_cast<std::size_t>(each / word)) return false;
  all.component_stride = static_cast<std::size_t>(each / word), ++all.components;
  return true;
}

}  // namespace

std::size_t Machine::make_sums(std::span<const Task> tasks) {
  const u32 device = device_of(tasks[0]);
  Sums sums(*this);
  std::size_t count = 0;
  for (const Task& t : tasks) {
    if (t.kind != Task::Kind::sum || t.step != tasks[0].step || device_of(t) != device || !sums.add(t)) break;
    ++count;
    if (!options_.merged) break;
  }
  require<InternalError>(count > 0, "a sum has more operands than a call can have");
  add(device, tasks[0].step, sums.finish(*devices_[device]));
  return count;
}

std::size_t Machine::make_transforms(std::span<const Task> tasks) {
  const auto prime = [&](const Task& t) { return ring_.primes[program_->values[t.to].prime]; };
  const u32 device = device_of(tasks[0]);
  View a = view(tasks[0].a), to = view(tasks[0].to);
  device::PrimeList primes = {prime(tasks[0])};
  std::size_t count = 1;
  for (; options_.merged && count < tasks.size() && count < device::PrimeList::kMost; ++count) {
    const Task& t = tasks[count];
    if (t.kind != tasks[0].kind || t.step != tasks[0].step || device_of(t) != device) break;
    View more_a = a, more_to = to;
    if (!extend(more_a, view(t.a)) || !extend(more_to, view(t.to))) break;
    a = more_a, to = more_to;
    primes.push_back(prime(t));
  }
  if (tasks[0].kind == Task::Kind::ntt)
    add(device, tasks[0].step, device::ForwardNtt{ring_.ring, primes, a, to});
  else
    add(device, tasks[0].step, device::InverseNtt{ring_.ring, primes, a, to});
  return count;
}

std::size_t Machine::make_conversions(std::span<const Task> tasks) {
  const u32 device = device_of(tasks[0]);
  View x = view_of_group(tasks[0].a), to = view_of_group(tasks[0].to);
  std::size_t count = 1;
  for (; options_.merged && count < tasks.size(); ++count) {
    const Task& t = tasks[count];
    if (t.kind != Task::Kind::convert || t.table != tasks[0].table || t.step != tasks[0].step || device_of(t) != device)
      break;
    View more_x = x, more_to = to;
    if (!extend_components(more_x, view_of_group(t.a)) || !extend_components(more_to, view_of_group(t.to))) break;
    x = more_x, to = more_to;
  }
  add(device, tasks[0].step, device::Convert{.conversion = conversions_[tasks[0].table], .x = x, .own = {}, .out = to});
  return count;
}

std::size_t Machine::make(std::span<const Task> tasks) {
  const Task& t = tasks[0];
  switch (t.kind) {
    case Task::Kind::sum:
      return make_sums(tasks);
    case Task::Kind::ntt:
    case Task::Kind::inverse:
      return make_transforms(tasks);
    case Task::Kind::convert:
      return make_conversions(tasks);
    case Task::Kind::shift: {
      const Summand& s = program_->summands[t.first];
      const math::PrimeIndex prime = ring_.primes[program_->values[t.to].prime];
      const u64 c = scalars_[program_->values[s.scalar].at];
      device::LimbConstants constant{};
      constant[0] = s.negative ? math::neg_mod(c, ring_.ring->ring().prime(prime)) : c;
      add(device_of(t), t.step,
          device::AddConstants{ring_.ring, {prime}, view(t.a), constant, Domain::coefficient, view(t.to)});
      return 1;
    }
    case Task::Kind::move:
      return make_moves(tasks);
  }
  return 1;
}

std::size_t Machine::make_moves(std::span<const Task> tasks) {
  const u32 to = device_of(tasks[0]), from = program_->values[tasks[0].a].device;
  device::Gather pieces;
  std::size_t count = 0;
  for (const Task& t : tasks) {
    if (t.kind != Task::Kind::move || t.step != tasks[0].step || device_of(t) != to) break;
    if (program_->values[t.a].device != from || (count > 0 && !options_.merged)) break;
    add_piece(pieces, view(t.a), view(t.to));
    ++count;
  }
  steps_.push_back({to, tasks[0].step, std::move(pieces), from});
  return count;
}

void Machine::build() {
  graph_ = nullptr, warm_ = false;
  steps_.clear();
  for (std::span<const Task> left = program_->tasks; !left.empty();) left = left.subspan(make(left));
  for (u32 d = 0; d < devices_.size(); ++d) {
    std::size_t wanted = 0;
    for (const Step& s : steps_) {
      if (s.device == d) wanted = std::max(wanted, devices_[d]->scratch_wanted(s.call));
    }
    scratch_[d] = wanted > 0 ? devices_[d]->allocate(wanted) : nullptr;
  }
  built_ = true;
}

void Machine::perform(const Step& step) const {
  if (step.from != kNone)
    return bring_over(*devices_[step.from], *devices_[step.device], std::get<device::Gather>(step.call));
  const device::Buffer& scratch = scratch_[step.device];
  devices_[step.device]->enqueue_in(step.call,
                                    scratch ? device::Workspace(scratch->address(), scratch->bytes()) : device::Workspace());
}

void Machine::all(bool branches) const {
  if (!branches) {
    for (const Step& step : steps_) perform(step);
    return;
  }
  for (std::size_t i = 0; i < steps_.size();) {
    std::vector<std::vector<std::function<void()>>> parts(devices_.size());
    // A copy from a device waits for all earlier work of the device. Later work of the device waits for all copies from
    // it.
    std::vector<std::shared_ptr<device::Event>> begun(devices_.size());
    std::vector<std::pair<u32, std::shared_ptr<device::Event>>> fetched;
    for (const u32 number = steps_[i].number; i < steps_.size() && steps_[i].number == number; ++i) {
      const Step& step = steps_[i];
      if (step.from == kNone) {
        parts[step.device].emplace_back([this, &step] { perform(step); });
        continue;
      }
      if (!begun[step.from]) begun[step.from] = devices_[step.from]->queue().record();
      parts[step.device].emplace_back([this, &step, &begun, &fetched] {
        const Session& taker = *devices_[step.device];
        taker.queue().after(*begun[step.from]);
        taker.enqueue(step.call);
        fetched.emplace_back(step.from, taker.queue().record());
      });
    }
    for (u32 d = 0; d < devices_.size(); ++d) devices_[d]->queue().beside(parts[d]);
    for (const auto& [from, event] : fetched) devices_[from]->queue().after(*event);
  }
}

void Machine::run(const std::vector<View>& given, const std::vector<View>& results) {
  require<RecordingError>(
      !device::observed(),
      "cannot record a program of instructions: it is already a program; run it outside of the recorded function");
  const std::lock_guard lock(mutex_);
  if (!built_) build();
  bring(given);
  // Capture a graph at the second run, because most programs run once.
  const bool wanted = options_.graph != Options::Graph::none && warm_ && !refused_ && !graph_;
  if (wanted && at_home(0) && home_.queue().captures() && reach_each_other()) {
    std::vector<device::Queue*> others;
    for (std::size_t d = 1; d < devices_.size(); ++d) others.push_back(&devices_[d]->queue());
    try {
      graph_ = home_.queue().capture([&] { all(options_.graph == Options::Graph::branches); }, others);
    } catch (const DeviceError&) {  // no graph can be captured; a failed device reports its fault at the next call
      refused_ = true;
    }
  }
  if (graph_) {
    for (std::size_t d = 1; d < devices_.size(); ++d) home_.queue().after(*devices_[d]->queue().record());
    graph_->replay();
    for (std::size_t d = 1; d < devices_.size(); ++d) devices_[d]->queue().after(*home_.queue().record());
  } else {
    all(false);
  }
  warm_ = true;
  hand_out(results);
}

}  // namespace heliograph::program::limbs
