#include "program/limbs/machine.h"

#include "math/modulus.h"

namespace heliograph::program::limbs {

namespace {

using math::Domain;

Domain domain_of(const Value& v) { return v.coefficients ? Domain::coefficient : Domain::ntt; }

/// The same for every item of a batch.
View for_all(View v, std::size_t items) {
  v.axes = 1;
  v.shape[0] = items, v.stride[0] = 0;
  return v;
}

}  // namespace

Machine::Machine(std::shared_ptr<const Linked> program, const Session& home, std::vector<const Session*> devices, Ring ring,
                 std::size_t items)
    : program_(std::move(program)),
      home_(home),
      devices_(std::move(devices)),
      ring_(std::move(ring)),
      items_(items),
      sources_(program_->sources.size()),
      given_(program_->items.size()),
      scalars_(program_->sources.size()) {
  const Linked& p = *program_;
  for (std::size_t k = 0; k < kPrimes; ++k) lists_[k] = {ring_.primes[k]};
  const auto modulus = [&](std::uint16_t k) { return ring_.ring->ring().prime(ring_.primes[k]); };
  const auto moduli = [&](const std::vector<std::uint16_t>& list) {
    std::vector<u64> all;
    for (const std::uint16_t k : list) all.push_back(modulus(k));
    return all;
  };
  const auto everywhere = [&](const auto& constant) {
    for (const Session* s : devices_) s->kernels().prepare(*constant);
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
  slots_.resize(devices_.size());
  for (u32 d = 0; d < devices_.size(); ++d) {
    if (p.slots[d] > 0) slots_[d] = allocated(d, p.slots[d], 1, items_);
  }
  for (const Linked::Buffer& b : p.buffers) buffers_.push_back(allocated(b.device, 1, b.limbs, items_));
  for (u32 v = 0; v < p.values.size(); ++v) {
    if (p.values[v].kind != Value::Kind::source) continue;
    const Source& s = p.sources[p.values[v].at];
    const u32 device = p.values[v].device;
    // What is elsewhere than at home lies there limb by limb.
    if (s.kind != 's' && !at_home(device))
      sources_[p.values[v].at] = allocated(device, 1, 1, s.kind == 'i' ? items_ : 1);
    else if (s.kind == 'i' && given_[s.which].n == 0)
      given_[s.which] = allocated(device, 2, p.items[s.which].level, items_);
    if (s.kind == 'i' && at_home(device))
      sources_[p.values[v].at] = given_[s.which].with_components(s.component, 1).with_limbs(s.prime, 1);
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
  const auto add = [&](const View& v) { all += v.n == 0 ? 0 : v.bytes(); };
  std::for_each(slots_.begin(), slots_.end(), add);
  std::for_each(buffers_.begin(), buffers_.end(), add);
  std::for_each(given_.begin(), given_.end(), add);
  return all;
}

std::size_t Machine::calls() const {
  std::size_t all = 0;
  const std::span<const Action> actions = program_->actions;
  for (std::size_t i = 0; i < actions.size(); ++i, ++all) {
    const std::size_t count = row(actions.subspan(i)).to.limbs;
    all += actions[i].kind == Action::Kind::divide ? 1 : 0;
    if (actions[i].kind != Action::Kind::convert) i += count - 1;
  }
  return all;
}

View Machine::view(u32 value, std::size_t limbs) const {
  const Value& v = program_->values[value];
  switch (v.kind) {
    case Value::Kind::source:
      return sources_[v.at];
    case Value::Kind::made:
      return slots_[v.device].with_components(v.at, 1);
    default:
      return buffers_[v.at].with_limbs(v.limb, limbs);
  }
}

void Machine::bind(char kind, u32 which, const View& whole, std::span<const std::uint16_t> primes) {
  std::array<std::size_t, kPrimes> limb_of{};
  limb_of.fill(kPrimes);
  for (std::size_t l = 0; l < primes.size(); ++l) limb_of[primes[l]] = l;
  const std::lock_guard lock(mutex_);
  graph_ = nullptr;
  std::vector<std::byte> words;
  for (const Value& v : program_->values) {
    if (v.kind != Value::Kind::source) continue;
    const Source& s = program_->sources[v.at];
    if (s.kind != kind || s.which != which) continue;
    require<MismatchError>(limb_of[s.prime] < whole.limbs, "what is bound to a program lacks a limb that it reads");
    const View part = whole.with_components(s.component, 1).with_limbs(limb_of[s.prime], 1);
    if (at_home(v.device)) {
      sources_[v.at] = for_all(part, items_);
    } else {
      words.resize(part.bytes());
      home_.download(part, words);
      View mine = sources_[v.at].item(0);
      devices_[v.device]->upload(words, mine);
      sources_[v.at] = for_all(mine, items_);
    }
  }
}

void Machine::bind_key(u32 which, const View& pairs) {
  const Key& key = program_->keys[which];
  std::vector<std::uint16_t> primes;
  for (std::size_t p = 0; p < key.level; ++p) primes.push_back(static_cast<std::uint16_t>(p));
  for (std::size_t p = 0; p < key.extension; ++p) primes.push_back(static_cast<std::uint16_t>(kPrimes - 1 - p));
  bind('k', which, pairs, primes);
}
void Machine::bind_plaintext(u32 item, const View& limbs, std::span<const std::uint16_t> primes) {
  bind('p', item, limbs, primes);
}

void Machine::bind_scalar(u32 item, std::span<const u64> residues) {
  const std::lock_guard lock(mutex_);
  graph_ = nullptr;
  for (std::size_t k = 0; k < program_->sources.size(); ++k) {
    const Source& s = program_->sources[k];
    if (s.kind != 's' || s.which != item) continue;
    device::LimbConstants c{}, negative{};
    c[0] = residues[s.prime];
    negative[0] = math::neg_mod(c[0], ring_.ring->ring().prime(ring_.primes[s.prime]));
    scalars_[k] = {device::Constants(c), device::Constants(negative)};
  }
}

void Machine::bring(const std::vector<View>& given) {
  device::Gather copies;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (given_[i].n == 0) continue;
    copies.pieces.push_back({given[i].with_limbs(0, given_[i].limbs), given_[i]});
  }
  if (!copies.pieces.empty()) home_.enqueue(copies);
  std::vector<std::byte> words;
  for (const Value& v : program_->values) {
    if (v.kind != Value::Kind::source || at_home(v.device)) continue;
    const Source& s = program_->sources[v.at];
    if (s.kind != 'i') continue;
    // A limb of every item, one after another.
    const View part = given[s.which].with_components(s.component, 1).with_limbs(s.prime, 1);
    words.resize(part.bytes());
    const std::size_t each = words.size() / items_;
    for (std::size_t k = 0; k < items_; ++k) home_.download(part.item(k), std::span(words).subspan(k * each, each));
    devices_[v.device]->upload(words, sources_[v.at]);
  }
}

void Machine::hand_out(const std::vector<View>& results) const {
  device::Gather copies;
  std::vector<std::byte> words;
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Result& result = program_->results[r];
    for (std::size_t i = 0; i < result.values.size(); ++i) {
      const View from = view(result.values[i]);
      const View to = results[r].with_components(i / result.level, 1).with_limbs(i % result.level, 1);
      const u32 device = program_->values[result.values[i]].device;
      if (at_home(device)) {
        copies.pieces.push_back({from, to});
        continue;
      }
      words.resize(from.bytes());
      devices_[device]->download(from, words);
      const std::size_t each = words.size() / items_;
      for (std::size_t k = 0; k < items_; ++k)
        home_.upload(std::span<const std::byte>(words).subspan(k * each, each), to.item(k));
    }
  }
  if (!copies.pieces.empty()) home_.enqueue(copies);
}

void Machine::move(const Action& action) const {
  const u32 from = program_->values[action.a].device, to = program_->values[action.to].device;
  const Session &giver = *devices_[from], &taker = *devices_[to];
  if (taker.device().reaches(giver.device())) {
    taker.queue().after(*giver.queue().record());
    taker.enqueue(device::Gather{{{view(action.a), view(action.to)}}});
    giver.queue().after(*taker.queue().record());  // the slot may be written again
    return;
  }
  std::vector<std::byte> words(view(action.a).bytes());
  giver.download(view(action.a), words);
  taker.upload(words, view(action.to));
}

namespace {

/// Whether `next` shows what `row` would as one more limb, and the row with it.
bool extend(View& row, const View& next) {
  const std::ptrdiff_t word = static_cast<std::ptrdiff_t>(row.word_size());
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

}  // namespace

Machine::Row Machine::row(std::span<const Action> actions) const {
  using Kind = Action::Kind;
  const Action& first = actions.front();
  const auto device = [&](u32 v) { return program_->values[v].device; };
  Row row{.primes = prime(first.to), .a = view(first.a), .b = {}, .to = view(first.to)};
  if (first.b != kNone && !is_scalar(first.b)) row.b = view(first.b);
  switch (first.kind) {
    case Kind::add:
    case Kind::subtract:
    case Kind::multiply:
    case Kind::negate:
    case Kind::turn:
    case Kind::ntt:
    case Kind::inverse:
    case Kind::copy:
    case Kind::divide:
      break;
    default:
      return row;
  }
  for (const Action& next : actions.subspan(1)) {
    if (next.kind != first.kind || next.step != first.step || device(next.to) != device(first.to)) break;
    if (next.kind != Kind::divide && next.table != first.table) break;
    if (row.primes.size() == device::PrimeList::kMost) break;
    View a = row.a, b = row.b, to = row.to;
    if (!extend(a, view(next.a)) || !extend(to, view(next.to)) || (next.b != kNone && !extend(b, view(next.b)))) break;
    row.a = a, row.b = b, row.to = to;
    row.primes.append(prime(next.to));
  }
  return row;
}

std::size_t Machine::perform(std::span<const Action> actions) const {
  const Action& a = actions.front();
  const Session& s = *devices_[program_->values[a.to].device];
  const device::RingHandle& ring = ring_.ring;
  const Value& to = program_->values[a.to];
  const auto scalar = [&](bool negative) -> const device::Constants& {
    return *scalars_[program_->values[a.b].at][negative ? 1 : 0];
  };
  if (a.kind == Action::Kind::move) {
    move(a);
    return 1;
  }
  if (a.kind == Action::Kind::convert) {
    const Bases& b = program_->conversions[a.table];
    s.enqueue(device::Convert{
        .conversion = conversions_[a.table], .x = view(a.a, b.from.size()), .own = {}, .out = view(a.to, b.to.size())});
    return 1;
  }
  const Row row = this->row(actions);
  switch (a.kind) {
    case Action::Kind::add:
      s.enqueue(device::Add{ring, row.primes, row.a, row.b, row.to});
      break;
    case Action::Kind::subtract:
      s.enqueue(device::Sub{ring, row.primes, row.a, row.b, row.to});
      break;
    case Action::Kind::multiply:
      s.enqueue(device::Mul{ring, row.primes, row.a, row.b, row.to});
      break;
    case Action::Kind::negate:
      s.enqueue(device::Neg{ring, row.primes, row.a, row.to});
      break;
    case Action::Kind::add_scalar:
    case Action::Kind::take_scalar:
      s.enqueue(
          device::AddConstants{ring, row.primes, row.a, scalar(a.kind == Action::Kind::take_scalar), domain_of(to), row.to});
      break;
    case Action::Kind::scale:
      s.enqueue(device::MulConstants{ring, row.primes, row.a, scalar(false), row.to});
      break;
    case Action::Kind::turn:
      s.enqueue(device::Permute{ring, row.primes, turns_[a.table][static_cast<std::size_t>(domain_of(to))], row.a, row.to});
      break;
    case Action::Kind::ntt:
      s.enqueue(device::ForwardNtt{ring, row.primes, row.a, row.to});
      break;
    case Action::Kind::inverse:
      s.enqueue(device::InverseNtt{ring, row.primes, row.a, row.to});
      break;
    case Action::Kind::copy:
      s.enqueue(device::Copy{row.a, row.to});
      break;
    case Action::Kind::divide: {
      device::LimbConstants c{};
      for (std::size_t k = 0; k < row.to.limbs; ++k) c[k] = divisors_[actions[k].table];
      s.enqueue(device::Sub{ring, row.primes, row.a, row.b, row.to});
      s.enqueue(device::MulConstants{ring, row.primes, row.to, device::Constants(c), row.to});
      break;
    }
    case Action::Kind::move:
    case Action::Kind::convert:
      break;
  }
  return row.to.limbs;
}

void Machine::all() const {
  for (std::span<const Action> left = program_->actions; !left.empty();) left = left.subspan(perform(left));
}

void Machine::run(const std::vector<View>& given, const std::vector<View>& results) {
  require<RecordingError>(!device::observed(),
                          "a program of instructions is a program already; a recorded function cannot run it");
  const std::lock_guard lock(mutex_);
  bring(given);
  const bool alone = devices_.size() == 1;
  // A graph from the second run on: most programs run once.
  if (alone && warm_ && !refused_ && !graph_ && devices_[0]->queue().captures()) {
    try {
      graph_ = devices_[0]->queue().capture([&] { all(); });
    } catch (const DeviceError&) {  // no graph can be made; a device that has failed says so at the next call
      refused_ = true;
    }
  }
  if (graph_)
    graph_->replay();
  else
    all();
  warm_ = true;
  hand_out(results);
}

}  // namespace heliograph::program::limbs
