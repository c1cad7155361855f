#include "backend/rtl/scheduler.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"

namespace heliograph::backend::rtl {

namespace {

constexpr std::size_t kWindow = 96;  // number of steps among which the next one is chosen
constexpr std::size_t kReserve = 2;  // number of slots that are reserved for the next step
constexpr u32 kOrdered = 1u << 24;   // descriptor flag: wait for all earlier uses of the bus (hg_dispatch)
constexpr std::size_t kAfterAll = std::numeric_limits<std::size_t>::max();

Unit unit_of(Op op) {
  switch (op) {
    case Op::ntt:
      return kNtt;
    case Op::pointwise:
      return kPointwise;
    case Op::permute:
      return kPermute;
    case Op::convert:
      return kConvert;
    case Op::store:
      return kStore;
    default:
      return kLoad;
  }
}

struct Limb {
  int log_n = 0;
  int slot = -1;
  bool made = false;     // the step that makes the value has begun, or memory has the value
  bool arrived = false;  // a step that reads the value has begun, so no load is in progress
  std::optional<u64> home;
  std::size_t since = 0;
  std::vector<std::size_t> uses;    // steps that read the value, the last one first
  std::size_t stores = 0;           // number of pending stores
  std::size_t cluster = kAfterAll;  // the conversion that reads the value
  u64 bytes() const { return u64{4} << log_n; }
  std::size_t next_use() const { return uses.empty() ? kAfterAll : uses.back(); }
  bool wanted() const { return !uses.empty() || stores > 0; }
};

class Scheduler {
 public:
  Scheduler(const Shape& shape, const List& list, const std::function<u64(u64)>& spill)
      : shape_(shape),
        spill_(spill),
        timing_(shape),
        steps_(list.steps()),
        slots_(static_cast<std::size_t>(shape.slots), kNoValue),
        tables_(static_cast<std::size_t>(shape.tables)),
        sets_(static_cast<std::size_t>(shape.sets)),
        done_(steps_.size()) {
    for (const Origin& o : list.values())
      limbs_.push_back(
          {.log_n = o.log_n, .made = o.address.has_value(), .arrived = true, .home = o.address, .since = o.since});
    for (const List::Store& s : list.stores()) finals_.push_back(s), ++limbs_[s.value].stores;
    find_uses();
  }

  std::vector<Descriptor> all() {
    while (head_ < steps_.size() || stored_ < finals_.size()) {
      if (issue_step() || load_something() || store_something()) continue;
      if (timing_.idle()) {
        force();
        continue;
      }
      timing_.advance();
    }
    return std::move(out_);
  }

 private:
  using Home = std::multimap<u64, Value>;

  /// Marks steps whose results are not used as done; collects the steps that read each other value.
  void find_uses() {
    for (std::size_t i = steps_.size(); i-- > 0;) {
      const Step& s = steps_[i];
      done_[i] = s.op != Op::store && std::none_of(s.out.begin(), s.out.end(), [&](Value v) { return limbs_[v].wanted(); });
      if (done_[i]) continue;
      in_order_ += s.op == Op::store ? 1 : 0;
      for (const Value v : s.in) {
        if (v == kNoValue) continue;
        Limb& limb = limbs_[v];
        if (limb.uses.empty() || limb.uses.back() != i) limb.uses.push_back(i);
        if (s.op == Op::convert) limb.cluster = i;
      }
    }
    // Uses were collected from the last step on, so the next use is at the back.
    for (Value v = 0; v < limbs_.size(); ++v) {
      if (limbs_[v].home && limbs_[v].wanted()) homes_.emplace(*limbs_[v].home, v);
    }
    skip_done();
  }
  void skip_done() {
    while (head_ < steps_.size() && done_[head_]) ++head_;
  }

  /// Calls `f` with each of the next steps, up to a store that blocks all later steps. f returns whether to stop.
  template <class F>
  void window(F f) {
    std::size_t seen = 0;
    for (std::size_t i = head_; i < steps_.size() && seen < kWindow; ++i) {
      if (done_[i]) continue;
      if (steps_[i].op == Op::store && i != head_) return;
      if (f(i) || steps_[i].op == Op::store) return;
      ++seen;
    }
  }

  void emit(const Descriptor& d) {
    out_.push_back(d);
    timing_.issue(d);
  }

  bool present(const Step& s) const {
    return std::all_of(s.in.begin(), s.in.end(), [&](Value v) { return v == kNoValue || limbs_[v].slot >= 0; });
  }
  /// Returns the card's table or set that holds a step's resource; -1 if none holds it.
  int holder(const Step& s) const {
    const auto& all = s.op == Op::ntt ? tables_ : sets_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].valid && all[i].address == s.resource.address) return static_cast<int>(i);
    }
    return -1;
  }
  static bool has_resource(const Step& s) { return s.op == Op::ntt || s.op == Op::convert; }

  bool issue_step() {
    bool issued = false;
    window([&](std::size_t i) {
      const Step& s = steps_[i];
      if (!timing_.ready(unit_of(s.op)) || !present(s)) return false;
      issued = s.op == Op::store ? store_in_order(s) : try_step(i);
      if (issued) finish(i);
      return issued;
    });
    return issued;
  }

  void finish(std::size_t i) {
    const Step& s = steps_[i];
    done_[i] = true;
    in_order_ -= s.op == Op::store ? 1 : 0;
    for (const Value v : s.in) {
      if (v != kNoValue) used(v, i);
    }
    skip_done();
  }
  void used(Value v, std::size_t by) {
    Limb& limb = limbs_[v];
    limb.arrived = true;
    std::erase(limb.uses, by);
    let_go(v);
  }
  /// Frees the slot of a value that no step reads any more.
  void let_go(Value v) {
    Limb& limb = limbs_[v];
    if (limb.wanted() || limb.slot < 0) return;
    if (slots_[static_cast<std::size_t>(limb.slot)] == v) slots_[static_cast<std::size_t>(limb.slot)] = kNoValue;
    limb.slot = -1;
  }

  unsigned bank_of(int slot) const { return static_cast<unsigned>(slot) % static_cast<unsigned>(shape_.banks); }

  bool try_step(std::size_t i) {
    const Step& s = steps_[i];
    Descriptor d = s.words;
    if (has_resource(s)) {
      const int at = holder(s);
      if (at < 0) return false;
      d[6] |=
          s.op == Op::ntt ? static_cast<u32>(at) << (shape_.log_n - shape_.log_butterflies()) : static_cast<u32>(at) << 16;
    }
    const auto slot = [&](std::size_t k) { return s.in[k] == kNoValue ? 0u : static_cast<u32>(limbs_[s.in[k]].slot); };
    if (s.op == Op::convert) {
      for (std::size_t k = 0; k < s.in.size(); ++k) d[8 + k / 4] |= slot(k) << (8 * (k % 4));
    } else {
      for (std::size_t k = 0; k < s.in.size(); ++k) d[1] |= slot(k) << (8 * (k + 1));
    }
    // A result may take the slot of an operand that is not read again, unless the step writes rows before it has read all.
    u64 reusable = 0;
    if (s.op == Op::ntt || s.op == Op::pointwise) {
      for (const Value v : s.in) {
        if (v == kNoValue) continue;
        const Limb& limb = limbs_[v];
        if (limb.stores == 0 && limb.uses.size() == 1) reusable |= u64{1} << limb.slot;
      }
    }
    // First checks the conditions that do not depend on slots.
    Descriptor probe = d;
    if (!could_read(probe, s)) return false;
    Room room{.unit = unit_of(s.op), .need = next_use_of(s), .reusable = reusable, .inputs = &s};
    std::vector<int> chosen;
    for (std::size_t k = 0; k < s.out.size(); ++k) {
      const int at = find_slot(room, limbs_[s.out[k]], i == head_);
      if (at < 0) {
        if (free_slots() < s.out.size()) short_of_slots_ = std::min(short_of_slots_, i);
        return false;
      }
      room.occupied |= u64{1} << at;
      room.reusable = 0;
      chosen.push_back(at);
    }
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      const u32 at = static_cast<u32>(chosen[k]);
      if (s.op == Op::convert)
        d[12 + k / 4] |= at << (8 * (k % 4));
      else
        d[1] |= at;
    }
    if (!timing_.can_issue(d)) return false;
    for (std::size_t k = 0; k < chosen.size(); ++k) take(chosen[k], s.out[k]);
    emit(d);
    return true;
  }

  bool could_read(const Descriptor& d, const Step& s) const {
    Timing::Bits reads;
    for (const Value v : s.in) {
      if (v != kNoValue) reads.slots |= u64{1} << limbs_[v].slot;
    }
    if (has_resource(s)) reads.others = timing_.needs(d).reads.others;
    if (reads & timing_.writing()) return false;
    return (timing_.banks(reads.slots) & timing_.read_banks(unit_of(s.op))) == 0;
  }

  std::size_t next_use_of(const Step& s) const {
    std::size_t next = kAfterAll;
    for (const Value v : s.out) next = std::min(next, limbs_[v].next_use());
    return next;
  }

  struct Room {
    Unit unit;
    std::size_t need;                // next step that reads the new value
    u64 reusable = 0, occupied = 0;  // slots that may be overwritten; slots that must not
    const Step* inputs = nullptr;    // operands of the step that writes
    unsigned avoid = 0;              // banks that are read together with the value
  };

  /// Frees a slot whose value is also in memory.
  void drop(int slot) {
    const Value v = slots_[static_cast<std::size_t>(slot)];
    if (v == kNoValue) return;
    limbs_[v].slot = -1;
    slots_[static_cast<std::size_t>(slot)] = kNoValue;
  }
  void take(int slot, Value v) {
    drop(slot);
    slots_[static_cast<std::size_t>(slot)] = v;
    limbs_[v].slot = slot;
    limbs_[v].made = true;
  }

  bool is_input(const Step* s, Value v) const {
    return s != nullptr && std::find(s->in.begin(), s->in.end(), v) != s->in.end();
  }

  /// Returns a slot that can be written now; -1 if none. The function does not yet drop a value that is in the slot.
  int find_slot(const Room& room, const Limb& limb, bool head) {
    const u64 in_use = timing_.in_use().slots;
    const std::size_t free = free_slots();
    const unsigned writers = timing_.write_banks(room.unit);
    std::vector<int> filled(static_cast<std::size_t>(shape_.banks));
    for (int s = 0; s < shape_.slots; ++s) filled[bank_of(s)] += slots_[static_cast<std::size_t>(s)] != kNoValue;
    unsigned reads = 0;
    if (room.inputs != nullptr && room.inputs->op == Op::convert) {
      for (const Value v : room.inputs->in) reads |= 1u << bank_of(limbs_[v].slot);
    }
    const int cluster = limb.cluster == kAfterAll ? -1 : cluster_bank(limb.cluster, filled);
    int best = -1;
    double best_score = 0;
    for (int s = 0; s < shape_.slots; ++s) {
      const u64 bit = u64{1} << s;
      const unsigned bank = bank_of(s);
      if (room.occupied & bit || in_use & bit) continue;
      if (room.unit != kNtt && writers >> bank & 1) continue;
      const Value v = slots_[static_cast<std::size_t>(s)];
      double score = 0;
      if (v != kNoValue && !(room.reusable & bit)) {
        const Limb& there = limbs_[v];
        if (!there.home || is_input(room.inputs, v) || needed_by_head(v) || (!there.arrived && !head)) continue;
        if (there.next_use() <= room.need && !head) continue;
        // Prefers slots whose values are used latest, and most of all slots whose values are not used again.
        score = -1000 + 900 * (there.next_use() == kAfterAll
                                   ? 1.0
                                   : std::min(1.0, static_cast<double>(there.next_use() - head_) / 4096));
      }
      if (v == kNoValue && !head && free <= kReserve) continue;
      if (room.reusable & bit) score += 6;
      if (cluster >= 0) score += static_cast<int>(bank) == cluster ? 20 : 0;
      if (room.avoid >> bank & 1) score -= 10;
      if (reads >> bank & 1) score -= 30;
      score -= filled[bank] + (room.unit == kNtt && writers >> bank & 1 ? 5 : 0);
      if (best < 0 || score > best_score) best = s, best_score = score;
    }
    return best;
  }

  /// Returns one bank for all sources of a conversion, which reads them at once through all ports of that bank.
  int cluster_bank(std::size_t conversion, const std::vector<int>& filled) {
    const auto found = clusters_.find(conversion);
    if (found != clusters_.end()) return found->second;
    int bank = 0;
    for (int b = 1; b < shape_.banks; ++b) {
      if (filled[static_cast<std::size_t>(b)] < filled[static_cast<std::size_t>(bank)]) bank = b;
    }
    return clusters_[conversion] = bank;
  }

  bool needed_by_head(Value v) const { return head_ < steps_.size() && is_input(&steps_[head_], v); }
  std::size_t free_slots() const { return static_cast<std::size_t>(std::count(slots_.begin(), slots_.end(), kNoValue)); }

  bool load_something() {
    if (!timing_.ready(kLoad)) return false;
    bool loaded = false;
    window([&](std::size_t i) {
      loaded = load_for(i);
      return loaded;
    });
    if (!loaded && left_in_window() < kWindow) loaded = load_for_stores();
    return loaded;
  }
  std::size_t left_in_window() {
    std::size_t count = 0;
    window([&](std::size_t) { return ++count, false; });
    return count;
  }
  bool load_for(std::size_t i) {
    const Step& s = steps_[i];
    unsigned avoid = 0;
    for (const Value v : s.in) {
      if (v != kNoValue && limbs_[v].slot >= 0) avoid |= 1u << bank_of(limbs_[v].slot);
    }
    for (const Value v : s.in) {
      if (v == kNoValue || limbs_[v].slot >= 0 || !limbs_[v].home) continue;
      if (limbs_[v].since > i) continue;
      if (load(v, i, avoid)) return true;
    }
    return has_resource(s) && holder(s) < 0 && inputs_made(s) && load_resource(i);
  }
  bool inputs_made(const Step& s) const {
    return std::all_of(s.in.begin(), s.in.end(), [&](Value v) { return v == kNoValue || limbs_[v].made; });
  }
  bool load(Value v, std::size_t need, unsigned avoid) {
    Limb& limb = limbs_[v];
    const Room room{.unit = kLoad, .need = need, .avoid = avoid};
    const int at = find_slot(room, limb, need == head_);
    if (at < 0) {
      short_of_slots_ = std::min(short_of_slots_, need);
      return false;
    }
    Descriptor d = heliograph::rtl::instruction(Op::load, limb.log_n);
    d[1] = static_cast<u32>(at);
    d[8] = static_cast<u32>(*limb.home), d[9] = static_cast<u32>(*limb.home >> 32);
    if (was_stored(*limb.home, limb.bytes())) d[0] |= kOrdered;
    if (!timing_.can_issue(d)) return false;
    take(at, v);
    limb.arrived = false;
    emit(d);
    return true;
  }

  struct Held {
    bool valid = false;
    u64 address = 0;
  };
  bool load_resource(std::size_t i) {
    const Step& s = steps_[i];
    auto& all = s.op == Op::ntt ? tables_ : sets_;
    // Replaces the resource whose next use is latest, but never a resource that an earlier step needs.
    std::vector<std::size_t> next(all.size(), kAfterAll);
    window([&](std::size_t k) {
      if (steps_[k].op == s.op) {
        const int at = holder(steps_[k]);
        if (at >= 0) next[static_cast<std::size_t>(at)] = std::min(next[static_cast<std::size_t>(at)], k);
      }
      return false;
    });
    const u32 used = timing_.in_use().others >> (s.op == Op::ntt ? 0 : shape_.tables);
    int best = -1;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (used >> k & 1 || next[k] < i) continue;
      if (best < 0 || next[k] > next[static_cast<std::size_t>(best)]) best = static_cast<int>(k);
    }
    if (best < 0) return false;
    Descriptor d = heliograph::rtl::instruction(s.op == Op::ntt ? Op::twiddles : Op::constants, s.resource.log_n);
    d[6] =
        s.op == Op::ntt ? static_cast<u32>(best) << (shape_.log_n - shape_.log_butterflies()) : static_cast<u32>(best) << 16;
    d[8] = static_cast<u32>(s.resource.address), d[9] = static_cast<u32>(s.resource.address >> 32);
    d[10] = s.resource.beats;
    if (!timing_.can_issue(d)) return false;
    all[static_cast<std::size_t>(best)] = {true, s.resource.address};
    emit(d);
    return true;
  }

  bool was_stored(u64 address, u64 bytes) const {
    auto at = written_.upper_bound(address);
    if (at != written_.begin() && std::prev(at)->first + std::prev(at)->second > address) return true;
    return at != written_.end() && at->first < address + bytes;
  }
  /// Calls f with each value whose memory overlaps this range.
  template <class F>
  void homes_over(u64 address, u64 bytes, F f) {
    const u64 longest = u64{4} << shape_.log_n;
    for (auto at = homes_.lower_bound(address >= longest ? address - longest + 1 : 0);
         at != homes_.end() && at->first < address + bytes;) {
      const auto next = std::next(at);
      Limb& limb = limbs_[at->second];
      if (limb.home && *limb.home == at->first && limb.home.value() + limb.bytes() > address) f(at);
      at = next;
    }
  }
  /// Returns true if this memory may be overwritten, because slots hold the values that are still needed. If not all needed
  /// values are in slots, the function starts to load them and returns false.
  bool may_overwrite(u64 address, u64 bytes, Value by, std::size_t before) {
    bool may = true;
    homes_over(address, bytes, [&](Home::iterator at) {
      const Limb& limb = limbs_[at->second];
      if (at->second == by || !limb.wanted() || limb.slot >= 0 || limb.since > before) return;
      may = false;
    });
    return may;
  }
  bool load_what_is_overwritten(u64 address, u64 bytes, Value by, std::size_t before) {
    Value first = kNoValue;
    homes_over(address, bytes, [&](Home::iterator at) {
      const Limb& limb = limbs_[at->second];
      if (at->second != by && limb.wanted() && limb.slot < 0 && limb.since <= before && first == kNoValue)
        first = at->second;
    });
    return first != kNoValue && timing_.ready(kLoad) && load(first, head_, 0);
  }
  bool store(Value v, u64 address, bool becomes_home, std::size_t before) {
    Limb& limb = limbs_[v];
    Descriptor d = heliograph::rtl::instruction(Op::store, limb.log_n);
    d[1] = static_cast<u32>(limb.slot) << 8;
    d[8] = static_cast<u32>(address), d[9] = static_cast<u32>(address >> 32);
    bool ordered = false;
    homes_over(address, limb.bytes(), [&](Home::iterator at) { ordered |= !limbs_[at->second].arrived; });
    if (ordered) d[0] |= kOrdered;
    if (!timing_.can_issue(d)) return false;
    homes_over(address, limb.bytes(), [&](Home::iterator at) {
      if (limbs_[at->second].since > before) return;
      limbs_[at->second].home.reset();
      homes_.erase(at);
    });
    limb.arrived = true;
    if (becomes_home && !limb.home) limb.home = address, homes_.emplace(address, v);
    written_[address] = std::max(written_[address], limb.bytes());
    emit(d);
    return true;
  }
  static u64 address_of(const Step& s) { return s.words[8] | u64{s.words[9]} << 32; }
  bool store_in_order(const Step& s) {
    const Value v = s.in[0];
    if (!may_overwrite(address_of(s), limbs_[v].bytes(), v, head_)) return false;
    return store(v, address_of(s), false, head_);
  }

  /// Stores one of the values that memory must have at the end, if the bus is idle.
  bool store_something() {
    if (!timing_.ready(kStore)) return false;
    for (std::size_t k = stored_; k < finals_.size() && in_order_ == 0; ++k) {
      const Value v = finals_[k].value;
      if (v == kNoValue || limbs_[v].slot < 0 || !final_may_go(k)) continue;
      if (store_final(k)) return true;
    }
    return make_room();
  }
  bool final_may_go(std::size_t k) {
    return may_overwrite(finals_[k].address, limbs_[finals_[k].value].bytes(), finals_[k].value, kAfterAll);
  }
  bool store_final(std::size_t k) {
    const Value v = finals_[k].value;
    if (!store(v, finals_[k].address, true, kAfterAll)) return false;
    --limbs_[v].stores;
    finals_[k].value = kNoValue;
    while (stored_ < finals_.size() && finals_[stored_].value == kNoValue) ++stored_;
    let_go(v);
    return true;
  }
  bool load_for_stores() {
    for (std::size_t k = stored_; k < finals_.size(); ++k) {
      const Value v = finals_[k].value;
      if (v == kNoValue || !limbs_[v].made) continue;
      if (limbs_[v].slot < 0 && limbs_[v].home && load(v, kAfterAll - 1, 0)) return true;
      if (load_what_is_overwritten(finals_[k].address, limbs_[v].bytes(), v, kAfterAll)) return true;
    }
    return false;
  }

  /// Frees a slot for a step that lacks one: moves the value with the latest next use to memory.
  bool make_room() {
    const std::size_t need = short_of_slots_;
    short_of_slots_ = kAfterAll;
    if (need == kAfterAll) return false;
    return spill_last(need, false);
  }
  bool spill_last(std::size_t need, bool force) {
    int last = -1;
    std::size_t use = 0;
    for (int s = 0; s < shape_.slots; ++s) {
      const Value v = slots_[static_cast<std::size_t>(s)];
      if (v == kNoValue || limbs_[v].home || needed_by_head(v) || (!force && limbs_[v].next_use() <= need)) continue;
      if (timing_.writing().slots >> s & 1) continue;
      if (last < 0 || limbs_[v].next_use() > use) last = s, use = limbs_[v].next_use();
    }
    if (last < 0) return false;
    const Value v = slots_[static_cast<std::size_t>(last)];
    for (std::size_t k = stored_; k < finals_.size(); ++k) {
      if (finals_[k].value == v && in_order_ == 0 && final_may_go(k)) return store_final(k);
    }
    const u64 bytes = limbs_[v].bytes();
    auto& kept = spilled_[v];
    if (kept == 0) kept = spill_(bytes);
    return store(v, kept, true, kAfterAll);
  }

  /// Frees the slots that the next step needs. Called if no step runs and no step can begin.
  void force() {
    if (head_ < steps_.size()) {
      const Step& s = steps_[head_];
      if (s.op == Op::store && load_what_is_overwritten(address_of(s), limbs_[s.in[0]].bytes(), s.in[0], head_)) return;
      if (spill_last(head_, true)) return;
    } else if (spill_last(kAfterAll, true)) {
      return;
    }
    throw InternalError("a step of the list needs more slots than the card has");
  }

  const Shape shape_;
  const std::function<u64(u64)>& spill_;
  Timing timing_;
  const std::vector<Step>& steps_;
  std::vector<Limb> limbs_;
  std::vector<Value> slots_;
  std::vector<Held> tables_, sets_;
  std::vector<bool> done_;
  std::size_t head_ = 0;
  std::vector<List::Store> finals_;
  std::size_t stored_ = 0;    // final stores before this index are done
  std::size_t in_order_ = 0;  // pending stores that must precede final stores
  Home homes_;
  std::map<u64, u64> written_;  // memory that this list has written: address to bytes
  std::map<Value, u64> spilled_;
  std::map<std::size_t, int> clusters_;
  std::size_t short_of_slots_ = kAfterAll;
  std::vector<Descriptor> out_;
};

}  // namespace

std::vector<Descriptor> schedule(const Shape& shape, const List& list, const std::function<u64(u64)>& spill) {
  return Scheduler(shape, list, spill).all();
}

}  // namespace heliograph::backend::rtl
