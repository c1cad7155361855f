#include "program/schedule.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "device/chunks.h"
#include "device/shape.h"

namespace heliograph::program {

namespace {

using device::Access;

constexpr u32 kNone = ~u32{0};
constexpr std::size_t kAligned = 256;

std::size_t rounded(std::size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

std::ptrdiff_t offset_of(const View& v) { return reinterpret_cast<std::ptrdiff_t>(v.data); }

/// The access of a call to a byte range of a place.
struct Use {
  u32 step = 0;
  std::ptrdiff_t begin = 0, end = 0;  // range of bytes in the place
  bool writes = false;
};

Use use_of(const View& v, Access access, u32 step) {
  const auto word = static_cast<std::ptrdiff_t>(v.word_size());
  std::ptrdiff_t low = 0, high = 0;
  const auto widen = [&](std::size_t count, std::ptrdiff_t stride) {
    if (count > 1) (stride < 0 ? low : high) += static_cast<std::ptrdiff_t>(count - 1) * stride;
  };
  for (int i = 0; i < v.axes; ++i) widen(v.shape[i], v.stride[i]);
  widen(v.components, static_cast<std::ptrdiff_t>(v.component_stride));
  widen(v.limbs, static_cast<std::ptrdiff_t>(v.limb_stride));
  return {.step = step,
          .begin = offset_of(v) + low * word,
          .end = offset_of(v) + (high + static_cast<std::ptrdiff_t>(v.n)) * word,
          .writes = access != Access::read};
}

/// Returns all fields of a call except its views, as text. Calls with equal texts and views of equal layouts can be
/// batched to one call. Returns an empty text for kernels that cannot be batched.
class Kind {
 public:
  static std::string of(const Step& step) {
    Kind k;
    std::visit([&](const auto& c) { k.look(c); }, step.call);
    return k.batches_ ? k.text_ : std::string();
  }

 private:
  /// Whether calls of a kernel cannot be batched: its operands cannot have another axis, or the text lacks some of its
  /// fields. BabySteps and GiantSteps have one axis for steps and items together. LimbSums and TFHE's kernels have at most
  /// one axis. The bytes of a ByteProduct have one item.
  template <class C>
  static constexpr bool kSingle = device::OneOf<C, device::Product, device::Gather, device::Sample, device::BabySteps,
                                                device::GiantSteps, device::LimbSums, device::ByteProduct, device::Combine,
                                                device::LweKeySwitch, device::Bootstrap, device::Evaluate>;

  template <class C>
  void look(const C& c) {
    using namespace device;
    batches_ = !kSingle<C>;
    text_ = C::name;
    if constexpr (requires { c.ring; }) add(c.ring.get());
    if constexpr (requires { c.primes; }) add(c.primes);
    if constexpr (requires { c.c; }) add(c.c, c.primes.size());
    if constexpr (std::is_same_v<C, WeightedSum>) {
      for (const LimbConstants& w : *c.weights) add(w, c.primes.size());
      add(c.constant.has_value());
      if (c.constant) add(*c.constant, c.primes.size());
    }
    if constexpr (requires { c.domain; }) add(static_cast<int>(c.domain));
    if constexpr (requires { c.permutation; }) add(c.permutation.get());
    if constexpr (requires { c.conversion; }) add(c.conversion.get());
    if constexpr (requires { c.place; }) {
      add(c.place.has_value());
      if (c.place) add(*c.place);
    }
    if constexpr (requires { c.key_limbs; }) add(*c.key_limbs);
    if constexpr (requires { c.plan; }) add(c.plan.get());
    if constexpr (requires { c.turn; }) add(c.turn.get());
    if constexpr (requires { c.turns; }) {
      for (const auto& turn : c.turns) add(turn.get());
    }
    device::each_view(c, [&](const View& v, Access) { text_ += device::form_of(v) + ';'; });
    batches_ = batches_ && widens(c);
  }
  /// Returns whether every operand except keys can have one more axis.
  template <class C>
  static bool widens(const C& c) {
    bool room = true;
    device::each_view(c, [&](const View& v, Access) { room = room && v.axes < device::kMaxAxes; });
    return room;
  }
  template <class T>
  void add(const T& value) {
    text_ += ' ';
    if constexpr (std::is_pointer_v<T>)
      text_ += std::to_string(reinterpret_cast<std::uintptr_t>(value));
    else
      text_ += std::to_string(value);
  }
  void add(const device::LimbConstants& constants, std::size_t limbs) {
    for (std::size_t l = 0; l < limbs; ++l) add(constants[l]);
  }
  void add(const PrimeList& primes) {
    for (const math::PrimeIndex p : primes) add(static_cast<unsigned>(p));
    text_ += '|';
  }

  std::string text_;
  bool batches_ = false;
};

/// Returns whether all items of a batch use the same item of an operand: keys, and the plaintexts of a linear sum.
bool serves_all(const Call& call, const View& v) {
  return std::visit(
      [&](const auto& c) {
        if constexpr (requires { c.key.components; }) {
          if (&v == &c.key) return true;
        }
        if constexpr (requires { c.plaintexts; }) {
          if (&v == &c.plaintexts) return true;
        }
        if constexpr (requires { c.keys.front().components; })
          return std::any_of(c.keys.begin(), c.keys.end(), [&](const View& key) { return &v == &key; });
        return false;
      },
      call);
}

class Scheduler {
 public:
  explicit Scheduler(const Program::Parts& parts) : parts_(parts), layer_(layers_of(parts)) {}

  std::unique_ptr<Schedule> run() {
    if (!movable()) return nullptr;
    auto made = std::make_unique<Schedule>();
    sizes();
    batch(*made);
    areas(*made);
    pack(*made);
    return made;
  }

 private:
  bool moves(u32 place) const {
    const Place::Kind kind = parts_.places[place].kind;
    return kind == Place::Kind::made || kind == Place::Kind::input;
  }

  bool movable() const {
    if (parts_.steps.empty()) return false;
    // On a device of several parts, the shape of an allocation determines the layout of its words, so no other tensor can
    // lie inside it.
    if (!parts_.steps.front().session->cuts_batches()) return false;
    for (const Step& step : parts_.steps) {
      if (step.session != parts_.steps.front().session || step.source != Step::kNoSource) return false;
      if (std::holds_alternative<device::Evaluate>(step.call) || std::holds_alternative<device::Combine>(step.call) ||
          std::holds_alternative<device::Bootstrap>(step.call) || std::holds_alternative<device::LweKeySwitch>(step.call))
        return false;
    }
    return std::all_of(parts_.places.begin(), parts_.places.end(), [](const Place& p) {
      if (p.kind == Place::Kind::input) return p.alone && device::is_dense(p.shape);
      return p.kind != Place::Kind::made || p.secrecy == Secrecy::open;
    });
  }

  void sizes() {
    bytes_.assign(parts_.places.size(), 0);
    for (std::size_t p = 0; p < parts_.places.size(); ++p) {
      if (moves(static_cast<u32>(p))) bytes_[p] = rounded(parts_.places[p].shape.bytes());
    }
    stack_.assign(parts_.places.size(), kNone), index_.assign(parts_.places.size(), 0);
  }

  /// Merges equal calls of a layer, if their operands can be stacked.
  void batch(Schedule& s) {
    const u32 depth = layer_.empty() ? 0 : *std::max_element(layer_.begin(), layer_.end()) + 1;
    std::vector<std::vector<u32>> of_layer(depth);
    for (u32 i = 0; i < layer_.size(); ++i) of_layer[layer_[i]].push_back(i);
    s.layers.resize(depth);
    for (u32 l = 0; l < depth; ++l) {
      std::map<std::string, std::vector<u32>> alike;
      for (const u32 i : of_layer[l]) {
        const std::string kind = Kind::of(parts_.steps[i]);
        alike[kind.empty() ? std::to_string(i) : kind].push_back(i);
      }
      for (const auto& [kind, group] : alike) {
        if (group.size() > 1 && stack(group)) {
          s.layers[l].push_back({.step = widened(group)});
        } else {
          for (const u32 i : group) s.layers[l].push_back({.step = parts_.steps[i]});
        }
      }
    }
  }

  /// Returns whether view `v` is the same for all steps of the group.
  bool shared(const std::vector<u32>& group, std::size_t v) const {
    return std::all_of(group.begin(), group.end(), [&](u32 i) {
      return parts_.steps[i].places[v] == parts_.steps[group[0]].places[v] && offset(i, v) == offset(group[0], v);
    });
  }
  std::ptrdiff_t offset(u32 step, std::size_t v) const {
    std::size_t k = 0;
    std::ptrdiff_t found = 0;
    device::each_view(parts_.steps[step].call, [&](const View& view, Access) {
      if (k++ == v) found = offset_of(view);
    });
    return found;
  }

  /// Stacks the operands of these steps. Returns false without changes if the operands cannot be stacked.
  bool stack(const std::vector<u32>& group) {
    const Step& lead = parts_.steps[group[0]];
    std::vector<Access> access;
    std::vector<bool> is_key;
    device::each_view(lead.call,
                      [&](const View& v, Access a) { access.push_back(a), is_key.push_back(serves_all(lead.call, v)); });
    const std::vector<u32> stack_before = stack_, index_before = index_;
    const std::size_t stacks_before = stack_bytes_.size();
    for (std::size_t v = 0; v < access.size(); ++v) {
      if (access[v] == Access::read && shared(group, v)) continue;
      if (is_key[v] || !line_up(group, v)) {
        stack_ = stack_before, index_ = index_before, stack_bytes_.resize(stacks_before);
        return false;
      }
    }
    return true;
  }

  bool line_up(const std::vector<u32>& group, std::size_t v) {
    const u32 first = parts_.steps[group[0]].places[v];
    if (!moves(first)) return false;
    if (stack_[first] != kNone) {
      for (std::size_t k = 0; k < group.size(); ++k) {
        const u32 p = parts_.steps[group[k]].places[v];
        if (stack_[p] != stack_[first] || index_[p] != index_[first] + k || offset(group[k], v) != offset(group[0], v))
          return false;
      }
      return true;
    }
    for (std::size_t k = 0; k < group.size(); ++k) {
      const u32 p = parts_.steps[group[k]].places[v];
      if (!moves(p) || stack_[p] != kNone || bytes_[p] != bytes_[first] || offset(group[k], v) != offset(group[0], v) ||
          parts_.places[p].result != parts_.places[first].result)
        return false;
      stack_[p] = static_cast<u32>(stack_bytes_.size()), index_[p] = static_cast<u32>(k);
    }
    stack_bytes_.push_back(bytes_[first] * group.size());
    return true;
  }

  /// Returns a batch of the steps: one call, whose views have one more axis.
  Step widened(const std::vector<u32>& group) const {
    Step one = parts_.steps[group[0]];
    std::size_t v = 0;
    device::each_view(one.call, [&](View& view, Access access) {
      const std::size_t at = v++;
      if (serves_all(one.call, view)) return;
      const bool same = access == Access::read && shared(group, at);
      for (int i = view.axes; i > 0; --i) view.shape[i] = view.shape[i - 1], view.stride[i] = view.stride[i - 1];
      ++view.axes;
      view.shape[0] = group.size();
      view.stride[0] = same ? 0 : static_cast<std::ptrdiff_t>(bytes_[one.places[at]] / view.word_size());
    });
    for (std::size_t k = 1; k < group.size(); ++k) one.work += parts_.steps[group[k]].work;
    return one;
  }

  /// Makes an area for each stack, for each place outside stacks, and for the scratch of each call.
  void areas(Schedule& s) {
    s.spots.assign(parts_.places.size(), {});
    std::vector<u32> of_stack(stack_bytes_.size(), kNone), of_place(parts_.places.size(), kNone);
    const auto area_of = [&](u32 p, u32 layer) {
      u32& area = stack_[p] != kNone ? of_stack[stack_[p]] : of_place[p];
      if (area == kNone) {
        area = static_cast<u32>(s.areas.size());
        const std::size_t bytes = stack_[p] != kNone ? stack_bytes_[stack_[p]] : bytes_[p];
        s.areas.push_back({.bytes = bytes, .result = parts_.places[p].result, .first = layer, .last = layer});
      }
      Area& a = s.areas[area];
      // Inputs are copied before the first call.
      a.first = parts_.places[p].kind == Place::Kind::input ? 0 : std::min(a.first, layer), a.last = std::max(a.last, layer);
      s.spots[p] = {.area = area, .offset = index_[p] * bytes_[p]};
    };
    for (u32 i = 0; i < parts_.steps.size(); ++i) {
      for (const u32 p : parts_.steps[i].places) {
        if (moves(p)) area_of(p, layer_[i]);
      }
    }
    for (u32 l = 0; l < s.layers.size(); ++l) {
      for (Schedule::Work& w : s.layers[l]) {
        w.scratch = s.areas.size();
        s.areas.push_back({.bytes = rounded(w.step.session->scratch_wanted(w.step.call)), .first = l, .last = l});
      }
    }
  }

  /// Packs areas in order of decreasing size. Each area gets the lowest offset where no other area is used at the same time.
  static void pack(Schedule& s) {
    std::vector<u32> order(s.areas.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) { return s.areas[a].bytes > s.areas[b].bytes; });
    std::vector<u32> placed;  // areas, sorted by offset
    for (const u32 number : order) {
      Area& a = s.areas[number];
      if (a.result) {
        s.result_bytes += a.bytes;
        continue;
      }
      std::size_t at = 0;
      for (const u32 other : placed) {
        const Area& o = s.areas[other];
        if (o.last < a.first || a.last < o.first) continue;
        if (at + a.bytes <= o.offset) break;
        at = std::max(at, o.offset + o.bytes);
      }
      a.offset = at;
      placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                     [&](std::size_t offset, u32 other) { return offset < s.areas[other].offset; }),
                    number);
      s.arena_bytes = std::max(s.arena_bytes, at + a.bytes);
    }
  }

  const Program::Parts& parts_;
  const std::vector<u32> layer_;
  std::vector<std::size_t> bytes_;        // indexed by place
  std::vector<u32> stack_, index_;        // indexed by place: its stack, and its index in the stack
  std::vector<std::size_t> stack_bytes_;  // indexed by stack
};

}  // namespace

std::vector<u32> layers_of(const Program::Parts& parts) {
  std::vector<u32> layer(parts.steps.size());
  std::vector<std::vector<Use>> uses(parts.places.size());
  for (u32 s = 0; s < parts.steps.size(); ++s) {
    std::size_t k = 0;
    std::vector<std::pair<u32, Use>> mine;
    device::each_view(parts.steps[s].call, [&](const View& v, Access access) {
      const u32 p = parts.steps[s].places[k++];
      if (parts.places[p].kind == Place::Kind::made) mine.emplace_back(p, use_of(v, access, s));
    });
    for (const auto& [p, use] : mine) {
      for (const Use& other : uses[p]) {
        const bool meet = use.begin < other.end && other.begin < use.end;
        if (meet && (use.writes || other.writes)) layer[s] = std::max(layer[s], layer[other.step] + 1);
      }
    }
    for (const auto& [p, use] : mine) uses[p].push_back(use);
  }
  return layer;
}

std::size_t Schedule::launches() const {
  std::size_t sum = 0;
  for (const auto& layer : layers) sum += layer.size();
  return sum;
}

std::unique_ptr<Schedule> schedule(const Program::Parts& parts) { return Scheduler(parts).run(); }

}  // namespace heliograph::program
