#include "backend/rtl/timing.h"

#include <algorithm>

#include "base/errors.h"

namespace heliograph::backend::rtl {

using heliograph::rtl::Op;

namespace {

// Latencies of rtl/src/hg_pkg.sv and of the modules' headers, in cycles.
constexpr u64 kNttLatency = 20, kPointwiseLatency = 20, kPermuteLatency = 5, kConvertLatency = 22, kConvertOut = 14;
// Latencies of the bus: from an instruction to its first beat, and from its last beat to its end, if the memory has no
// latency.
constexpr u64 kLoadLatency = 4, kStoreLatency = 7;
constexpr u64 kNever = ~u64{0};

int log_n_of(const Descriptor& d) { return static_cast<int>(d[0] >> 8 & 15); }
unsigned byte_of(std::uint32_t word, int i) { return word >> (8 * i) & 255; }

}  // namespace

Timing::Needs Timing::needs(const Descriptor& d) const {
  const auto slot = [](unsigned s) { return Bits{u64{1} << s, 0}; };
  const auto table = [&](std::uint32_t row) { return Bits{0, 1u << (row >> (shape_.log_n - shape_.log_butterflies()))}; };
  const auto set = [&](unsigned s) { return Bits{0, 1u << (static_cast<unsigned>(shape_.tables) + s)}; };
  Needs n{};
  switch (static_cast<Op>(d[0] & 255)) {
    case Op::ntt:
      n.unit = kNtt;
      n.reads = slot(byte_of(d[1], 1)), n.reads |= table(d[6] & 0xffff);
      n.writes = slot(byte_of(d[1], 0));
      break;
    case Op::pointwise:
      n.unit = kPointwise;
      for (int i = 0; i < 3; ++i) {
        if (d[0] >> (13 + i) & 1) n.reads |= slot(byte_of(d[1], 1 + i));
      }
      n.writes = slot(byte_of(d[1], 0));
      break;
    case Op::permute:
      n.unit = kPermute;
      n.reads = slot(byte_of(d[1], 1)), n.writes = slot(byte_of(d[1], 0));
      break;
    case Op::convert:
      n.unit = kConvert;
      n.reads = set(byte_of(d[6], 2));
      for (unsigned i = 0; i <= byte_of(d[6], 0); ++i) n.reads |= slot(byte_of(d[8 + i / 4], static_cast<int>(i % 4)));
      for (unsigned j = 0; j <= byte_of(d[6], 1); ++j) n.writes |= slot(byte_of(d[12 + j / 4], static_cast<int>(j % 4)));
      break;
    case Op::load:
      n.unit = kLoad;
      n.writes = slot(byte_of(d[1], 0));
      break;
    case Op::store:
      n.unit = kStore;
      n.reads = slot(byte_of(d[1], 1));
      break;
    case Op::twiddles:
      n.unit = kLoad;
      n.writes = table(d[6] & 0xffff);
      break;
    case Op::constants:
      n.unit = kLoad;
      n.writes = set(byte_of(d[6], 2));
      break;
    case Op::fence:
      n.fence = true;
      break;
  }
  return n;
}

unsigned Timing::banks(u64 slots) const {
  unsigned banks = 0;
  for (; slots != 0; slots &= slots - 1)
    banks |= 1u << (static_cast<unsigned>(std::countr_zero(slots)) % static_cast<unsigned>(shape_.banks));
  return banks;
}

int Timing::gap(int log_n) const {
  const int ahead = (1 << log_n) / (4 * shape_.butterflies);
  return std::max(0, static_cast<int>(kNttLatency) - ahead);
}

Timing::Cycles Timing::cycles_of(const Needs& needs, const Descriptor& d) const {
  const int log_n = log_n_of(d);
  const u64 rows = static_cast<u64>(this->rows(log_n)), n = u64{1} << log_n;
  switch (needs.unit) {
    case kNtt:
      return {now_ + rows / 2, kNever, kNever};
    case kPointwise: {
      // Operands in different slots of the same bank are read one after another.
      int phases = 1;
      for (u64 left = needs.reads.slots; left != 0; left &= left - 1) {
        const unsigned bank = static_cast<unsigned>(std::countr_zero(left)) % static_cast<unsigned>(shape_.banks);
        int same = 0;
        for (u64 s = needs.reads.slots; s != 0; s &= s - 1)
          same += static_cast<unsigned>(std::countr_zero(s)) % static_cast<unsigned>(shape_.banks) == bank;
        phases = std::max(phases, same);
      }
      const u64 end = now_ + rows * static_cast<u64>(phases);
      return {end, end + kPointwiseLatency, end};
    }
    case kPermute:
      return {now_ + rows, now_ + rows + kPermuteLatency, now_ + rows + 1};
    case kConvert: {
      const u64 sources = byte_of(d[6], 0) + 1, targets = byte_of(d[6], 1) + 1,
                groups = n / static_cast<u64>(shape_.coefficients);
      const u64 step = std::max(sources, targets), done = now_ + (groups - 1) * step + sources + targets + kConvertLatency;
      return {now_ + groups * step, done, done - kConvertOut + 1};
    }
    case kLoad: {
      const auto op = static_cast<Op>(d[0] & 255);
      const u64 beats = op == Op::constants ? d[10] & 0xffff : rows / 2;
      const bool two = op == Op::twiddles || (op == Op::constants && shape_.beat_words() > 16);
      const u64 done = now_ + kLoadLatency + beats * (two ? 2 : 1);
      return {done, done, done + 1};
    }
    case kStore: {
      const u64 done = now_ + rows / 2 + kStoreLatency;
      return {now_ + rows / 2, done, done + 1};
    }
  }
  return {};
}

Timing::Bits Timing::writing() const {
  Bits bits;
  for (const UnitState& u : state_) {
    for (int e = 0; e < u.count; ++e) bits |= u.running[e].writes;
  }
  return bits;
}

Timing::Bits Timing::in_use() const {
  Bits bits = writing();
  for (const UnitState& u : state_) {
    for (int e = 0; e < u.count; ++e) {
      const Running& r = u.running[e];
      bits |= Bits{r.read_done >= now_ ? r.reads.slots : 0, r.reads.others};
    }
  }
  return bits;
}

template <class Held>
unsigned Timing::banks_beside(Unit except, Held held) const {
  unsigned found = 0;
  for (int u = 0; u < kUnits; ++u) {
    if (u == except) continue;
    for (int e = 0; e < state_[u].count; ++e) found |= banks(held(static_cast<Unit>(u), state_[u].running[e]));
  }
  return found;
}

unsigned Timing::read_banks(Unit except) const {
  return banks_beside(except, [&](Unit, const Running& r) { return r.read_done >= now_ ? r.reads.slots : 0; });
}

unsigned Timing::write_banks(Unit except) const {
  return banks_beside(
      except, [&](Unit u, const Running& r) { return r.claims || (u == kNtt && now_ >= r.want) ? r.writes.slots : 0; });
}

bool Timing::can_issue(const Descriptor& d) const {
  const Needs n = needs(d);
  if (n.fence) return idle();
  if (!ready(n.unit)) return false;
  if (n.reads & writing() || n.writes & in_use()) return false;
  if (n.unit >= kLoad && d[0] >> 24 & 1 && bus_busy()) return false;
  if (banks(n.reads.slots) & read_banks(n.unit)) return false;
  return n.unit == kNtt || !(banks(n.writes.slots) & write_banks(n.unit));
}

void Timing::issue(const Descriptor& d) {
  const Needs n = needs(d);
  if (!n.fence) {
    UnitState& u = state_[n.unit];
    const Cycles c = cycles_of(n, d);
    Running r{.reads = n.reads, .writes = n.writes, .read_done = c.read_done, .done = c.done, .claims = n.unit != kNtt};
    u.ready = c.ready;
    if (n.unit == kNtt) {
      const int log_n = log_n_of(d);
      const u64 stage = static_cast<u64>(rows(log_n)) / 2;
      r.stage = stage;
      r.want =
          now_ + 1 + static_cast<u64>(log_n - 1) * (stage + static_cast<u64>(gap(log_n))) - static_cast<u64>(gap(log_n));
    }
    r.span = spans_.size();
    spans_.push_back({n.unit, now_, 0});
    u.running[static_cast<std::size_t>(u.count++)] = r;
  }
  advance_to(now_ + 1);
}

void Timing::claim_at(u64 cycle) {
  UnitState& u = state_[kNtt];
  if (u.count == 0) return;
  Running& r = u.running[static_cast<std::size_t>(u.count - 1)];
  if (r.claims || r.want > cycle) return;
  const unsigned held = banks_beside(
      kNtt, [&](Unit, const Running& other) { return other.claims && other.done >= cycle ? other.writes.slots : 0; });
  if (banks(r.writes.slots) & held) return;
  r.claims = true;
  const u64 end = std::max(cycle + 1, r.want) + r.stage - 1;  // cycle of the last pair of words
  r.done = end + kNttLatency;
  u.ready = end;
}

void Timing::end_until_now() {
  for (int i = 0; i < kUnits; ++i) {
    UnitState& u = state_[i];
    while (u.count > 0 && u.running[0].done < now_) {
      spans_[u.running[0].span].end = u.running[0].done + 1;
      u.running[0] = u.running[1];
      --u.count;
    }
  }
}

u64 Timing::next_event(u64 last) const {
  u64 next = last;
  for (const UnitState& u : state_) {
    for (int e = 0; e < u.count; ++e) {
      const Running& r = u.running[e];
      for (const u64 at : {r.read_done, r.done}) {
        if (at != kNever && at >= now_) next = std::min(next, at + 1);
      }
      if (!r.claims && r.want > now_) next = std::min(next, r.want);
    }
    if (u.ready != kNever && u.ready > now_) next = std::min(next, u.ready);
  }
  return next;
}

void Timing::advance_to(u64 cycle) {
  while (now_ < cycle) {
    claim_at(now_);
    const u64 next = next_event(cycle);  // the state is constant until then
    for (int i = 0; i < kUnits; ++i) busy_[i] += state_[i].count > 0 ? next - now_ : 0;
    now_ = next;
    end_until_now();
  }
}

void Timing::advance() {
  claim_at(now_);
  const u64 next = next_event(kNever);
  require<InternalError>(next != kNever, "the timing model has no next event: the list cannot end");
  advance_to(next);
}

bool Timing::idle() const {
  return std::all_of(state_.begin(), state_.end(), [](const UnitState& u) { return u.count == 0; });
}

void Timing::drain() {
  while (!idle()) advance();
}

Forecast forecast(const Shape& shape, const std::vector<Descriptor>& list) {
  // The card fetches descriptors on a separate bus, at most four ahead: 8 beats each, plus the latency between two.
  constexpr u64 kBeats = 8, kLatency = 4;
  constexpr std::size_t kAhead = 4;
  Timing timing(shape);
  std::vector<u64> left;  // issue time of each descriptor
  u64 fetched = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const u64 asked = i < kAhead ? 0 : left[i - kAhead] + 1;
    fetched = std::max(fetched, asked + kLatency - 1) + kBeats;
    if (fetched > timing.now()) timing.advance_to(fetched);
    while (!timing.can_issue(list[i])) timing.advance();
    left.push_back(timing.now());
    timing.issue(list[i]);
  }
  timing.drain();
  Forecast f{.cycles = left.empty() ? 0 : timing.now() - left.front()};
  for (int u = 0; u < kUnits; ++u) f.busy[static_cast<std::size_t>(u)] = timing.busy(static_cast<Unit>(u));
  f.spans = timing.spans();
  for (Span& s : f.spans) s.begin -= left.front(), s.end -= left.front();
  return f;
}

}  // namespace heliograph::backend::rtl
