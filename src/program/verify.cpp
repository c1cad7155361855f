#include "program/verify.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/sizes.h"
#include "device/chunks.h"
#include "device/expand.h"
#include "device/residues.h"
#include "device/shape.h"

namespace heliograph::program {

namespace {

using device::Access;
using device::Residues;

/// Distance between the artificial addresses of places during the checks.
constexpr u64 kSpan = u64{1} << 44;
constexpr std::size_t kMostSlots = std::size_t{1} << 22;  // limit on the tracked limbs of all places together
/// Limits on the visits of limbs by operands: in total, and per call.
constexpr std::size_t kMostVisits = std::size_t{1} << 26, kVisitsOfCall = std::size_t{1} << 14;

std::byte* at(u64 address) { return reinterpret_cast<std::byte*>(address); }
u64 number_of(const std::byte* address) { return reinterpret_cast<u64>(address); }
std::ptrdiff_t byte_offset(const View& v) { return reinterpret_cast<std::ptrdiff_t>(v.data); }

void require_right(bool right, const char* what) { require<DamagedFileError>(right, what); }

/// The range of a view's bytes, relative to the first byte of its first item.
struct Range {
  __int128 first = 0, last = 0;
};

Range range_of(const View& v) {
  const auto word = static_cast<__int128>(v.word_size());
  Range r;
  const auto widen = [&](std::size_t count, __int128 stride) {
    if (count > 1) (stride < 0 ? r.first : r.last) += static_cast<__int128>(count - 1) * stride;
  };
  for (int i = 0; i < v.axes; ++i) widen(v.shape[i], v.stride[i]);
  widen(v.components, static_cast<__int128>(v.component_stride));
  widen(v.limbs, static_cast<__int128>(v.limb_stride));
  return {r.first * word, (r.last + static_cast<__int128>(v.n)) * word};
}

u64 magnitude(std::ptrdiff_t stride) { return stride < 0 ? u64{0} - static_cast<u64>(stride) : static_cast<u64>(stride); }

/// Returns whether each limb starts at a multiple of 64 bytes, or of its length if that is less. Vector loops require this
/// alignment.
bool is_aligned(const View& v) {
  const std::size_t words = std::max<std::size_t>(1, std::min<std::size_t>(64 / v.word_size(), v.n));
  const auto fits = [&](u64 stride) { return stride % words == 0; };
  bool all = number_of(v.data) % (words * v.word_size()) == 0;
  for (int i = 0; i < v.axes; ++i) all = all && (v.shape[i] <= 1 || fits(magnitude(v.stride[i])));
  return all && (v.components <= 1 || fits(v.component_stride)) && (v.limbs <= 1 || fits(v.limb_stride));
}

/// Returns whether no limbs of a view overlap. The check is that each stride exceeds the extent of the smaller strides.
bool lies_apart(const View& v) {
  std::vector<std::pair<u64, std::size_t>> steps;
  const auto add = [&](std::size_t count, std::ptrdiff_t stride) {
    if (count > 1) steps.emplace_back(magnitude(stride), count);
  };
  for (int i = 0; i < v.axes; ++i) add(v.shape[i], v.stride[i]);
  add(v.components, static_cast<std::ptrdiff_t>(v.component_stride));
  add(v.limbs, static_cast<std::ptrdiff_t>(v.limb_stride));
  std::sort(steps.begin(), steps.end());
  __int128 extent = v.n;
  for (const auto& [stride, count] : steps) {
    if (stride < extent) return false;
    extent += static_cast<__int128>(stride) * (count - 1);
  }
  return true;
}

/// Known bounds of a place's words, limb by limb.
struct State {
  Range held;                      // bytes that views may use
  std::size_t n = 0, columns = 0;  // limbs of one item; 0 columns: the place is not tracked
  std::size_t items = 0;
  bool detailed = false;           // true: slots are limbs of each item; false: slots are limbs of one item, for all items
  std::vector<u64> below;          // exclusive bound on the words of each slot
  std::vector<bool> filled;        // for each slot, whether all its words were written
  bool zeroed = false;             // the place starts with zeros
  const Session* first = nullptr;  // session of the first call that writes to the place
};

class Verifier {
 public:
  Verifier(Program::Parts& parts, const std::vector<std::span<const std::byte>>& words, const Surroundings& around,
           const Limits& limits)
      : parts_(parts), words_(words), around_(around), limits_(limits) {}

  std::vector<std::vector<u64>> run() {
    for (std::size_t p = 0; p < parts_.places.size(); ++p) states_.push_back(state_of(p));
    for (Step& step : parts_.steps) verify_step(step);
    std::vector<std::vector<u64>> results;
    for (const Shown& shown : parts_.results) {
      Place& place = parts_.places[shown.place];
      require_right(place.kind != Place::Kind::key, "cannot load this program: a result must not be a key");
      look(shown.place, shown.view);
      place.result = place.kind == Place::Kind::made;
      results.push_back(read(shown.place, shown.view, {std::vector<u64>(shown.view.limbs, Residues::kAny)}));
    }
    add_zeros();
    require_room();
    return results;
  }

 private:
  // ---- places

  State state_of(std::size_t number) {
    Place& place = parts_.places[number];
    State s{.held = range_of(place.shape)};
    switch (place.kind) {
      case Place::Kind::input:
        require_right(
            place.number < around_.inputs.size() && device::form_of(place.shape) == around_.inputs[place.number].form,
            "cannot load this program: an input must have the layout of its operand");
        require_right(moduli_of(place).empty() || moduli_of(place).size() == place.shape.limbs,
                      "cannot load this program: an operand must have one prime for each limb");
        break;
      case Place::Kind::key:
        require_right(place.number < around_.sources && place.shape.n > 0 && place.shape.limbs <= device::kMaxLimbs &&
                          device::is_dense(place.shape) && place.shape.items() == 1,
                      "cannot load this program: a key must be of one of its key sets, and dense");
        s.held = {0, static_cast<__int128>(place.shape.bytes())};
        place.below.assign(place.shape.limbs, 0);
        break;
      case Place::Kind::constant:
        s.held = {0, static_cast<__int128>(words_[number].size())};
        if (device::is_dense(place.shape) && place.shape.bytes() == words_[number].size()) follow_constant(s, number);
        break;
      case Place::Kind::made:
        require_right(
            device::is_dense(place.shape) && (place.primes.size() == 0 || place.primes.size() == place.shape.limbs),
            "cannot load this program: a new tensor must be dense, with one prime for each limb");
        s.held = {0, static_cast<__int128>(place.shape.bytes())};
        require_room(static_cast<__int128>(place.shape.bytes()));
        follow(s, place.shape);
        break;
    }
    require_right(s.held.first > -static_cast<__int128>(kSpan / 4) && s.held.last <= static_cast<__int128>(kSpan / 2),
                  "cannot load this program: a place is larger than any memory");
    return s;
  }

  const std::vector<u64>& moduli_of(const Place& input) const { return around_.inputs[input.number].moduli; }

  /// Tracks the writes to a place, if the limit on slots permits it.
  void follow(State& s, const View& shape) {
    s.n = shape.n, s.items = shape.items();
    const std::size_t columns = shape.components * shape.limbs;
    if (shape.words() == 0 || columns > kMostSlots - slots_) return;
    slots_ += s.columns = columns;
    s.below.assign(columns, 1), s.filled.assign(columns, false);
  }
  bool detail(State& s) {
    const std::size_t all = s.columns * s.items;
    if (s.detailed || s.items == 1) return s.detailed = true;
    if (all > kMostSlots - slots_) return false;
    slots_ += all, s.detailed = true;
    s.below.resize(all), s.filled.resize(all);
    for (std::size_t i = s.columns; i < all; ++i) s.below[i] = s.below[i - s.columns], s.filled[i] = s.filled[i - s.columns];
    return true;
  }

  void follow_constant(State& s, std::size_t number) {
    const View& shape = parts_.places[number].shape;
    follow(s, shape);
    if (s.columns == 0) return;
    const std::size_t size = shape.word_size();
    const std::byte* word = words_[number].data();
    for (std::size_t limb = 0; limb < s.items * s.columns; ++limb) {
      u64 most = 0;
      for (std::size_t i = 0; i < s.n; ++i, word += size) {
        u64 value = 0;
        std::memcpy(&value, word, size);
        most = std::max(most, value);
      }
      u64& below = s.below[limb % s.columns];
      below = std::max(below, most == Residues::kAny ? most : most + 1);
    }
    s.filled.assign(s.columns, true);
  }

  // ---- views

  void look(u32 place, const View& v) {
    const Place& p = parts_.places[place];
    require_right(is_aligned(v),
                  "cannot load this program: the limbs of an operand must be aligned to 64 bytes or to their length");
    if (v.words() == 0) return;
    const Range shown = range_of(v);
    const State& s = states_[place];
    require_right(byte_offset(v) + shown.first >= s.held.first && byte_offset(v) + shown.last <= s.held.last,
                  "cannot load this program: an operand must be inside its place");
    require_right(v.word == p.shape.word, "cannot load this program: an operand must have the word size of its place");
  }

  void count_visits(std::size_t more) {
    const std::size_t most = kMostVisits + kVisitsOfCall * parts_.steps.size();
    require<LimitError>(more <= most - visits_,
                        "cannot verify this program: its calls list more single limbs than the verifier tracks");
    visits_ += more;
  }

  /// Returns whether each item of a view is an item of the place. Only the limbs of one item then matter.
  static bool by_columns(const State& s, const View& v) {
    if (s.detailed) return false;
    const u64 item = s.columns * s.n;
    for (int i = 0; i < v.axes; ++i) {
      if (v.shape[i] > 1 && magnitude(v.stride[i]) % item != 0) return false;
    }
    return true;
  }

  /// Calls `f` with each limb of a view, each of its slots, and whether the limb covers the slot.
  template <class F>
  void each_slot(const State& s, const View& v, F f) {
    const std::size_t items = by_columns(s, v) ? 1 : v.items();
    count_visits(items * v.components * v.limbs * (1 + v.n / s.n));
    for (std::size_t i = 0; i < items; ++i) {
      for (std::size_t c = 0; c < v.components; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          const auto word =
              static_cast<std::size_t>(byte_offset(v) / static_cast<std::ptrdiff_t>(v.word_size()) + v.offset(i, c, l));
          const bool whole = word % s.n == 0 && v.n % s.n == 0;
          for (std::size_t slot = word / s.n; slot <= (word + v.n - 1) / s.n; ++slot)
            f(l, s.detailed ? slot : slot % s.columns, whole);
        }
      }
    }
  }

  /// Calls `f` with each limb of a view, and the limb of the input or key of shape `shape` that contains it.
  template <class F>
  void each_limb(const View& shape, const View& v, F f) {
    u64 step = 0;  // greatest common divisor of the strides between limbs
    const auto add = [&](std::size_t count, std::ptrdiff_t stride) {
      if (count > 1) step = std::gcd(step, magnitude(stride));
    };
    for (int i = 0; i < shape.axes; ++i) add(shape.shape[i], shape.stride[i]);
    add(shape.components, static_cast<std::ptrdiff_t>(shape.component_stride));
    const auto between = static_cast<u64>(shape.limbs > 1 ? shape.limb_stride : 0);
    const auto unclear = "cannot load this program: it must read inputs and keys limb by limb";
    require_right(step == 0 || static_cast<__int128>(between) * static_cast<__int128>(shape.limbs - 1) +
                                       static_cast<__int128>(shape.n) <=
                                   static_cast<__int128>(step),
                  unclear);
    require_right(shape.limbs == 1 || between >= shape.n, unclear);
    count_visits(v.items() * v.components * v.limbs);
    for (std::size_t i = 0; i < v.items(); ++i) {
      for (std::size_t c = 0; c < v.components; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          std::ptrdiff_t word = byte_offset(v) / static_cast<std::ptrdiff_t>(v.word_size()) + v.offset(i, c, l);
          if (step != 0)
            word = ((word % static_cast<std::ptrdiff_t>(step)) + static_cast<std::ptrdiff_t>(step)) %
                   static_cast<std::ptrdiff_t>(step);
          require_right(word >= 0, unclear);
          const u64 limb = between ? static_cast<u64>(word) / between : 0, rest = static_cast<u64>(word) - limb * between;
          require_right(limb < shape.limbs && rest + v.n <= shape.n, unclear);
          f(l, static_cast<std::size_t>(limb));
        }
      }
    }
  }

  // ---- words that calls read and write

  /// Returns the exclusive bound on the words of each limb that a call reads. Throws if the words may not be residues.
  std::vector<u64> read(u32 number, const View& v, const Residues& wanted) {
    std::vector<u64> found(v.limbs, 1);
    if (v.words() == 0) return found;
    Place& place = parts_.places[number];
    State& s = states_[number];
    const auto meet = [&](std::size_t limb, u64 below) {
      found[limb] = std::max(found[limb], below);
      require_right(wanted.below.empty() || wanted.below[limb] == 0 || below <= wanted.below[limb],
                    "cannot load this program: it reads words that are not proven to be reduced modulo their prime");
    };
    const auto is_read = [&](std::size_t limb) { return wanted.below.empty() || wanted.below[limb] != 0; };
    if (place.kind == Place::Kind::input) {
      const std::vector<u64>& moduli = moduli_of(place);
      each_limb(place.shape, v, [&](std::size_t limb, std::size_t of) {
        if (is_read(limb)) meet(limb, moduli.empty() ? Residues::kAny : moduli[of]);
      });
    } else if (place.kind == Place::Kind::key) {
      place.reach = std::max(place.reach, static_cast<std::size_t>(byte_offset(v) + range_of(v).last));
      each_limb(place.shape, v, [&](std::size_t limb, std::size_t of) {
        if (!is_read(limb)) return;
        const u64 most = wanted.below.empty() ? Residues::kAny : wanted.below[limb];
        place.below[of] = place.below[of] ? std::min(place.below[of], most) : most;
        found[limb] = std::max(found[limb], most);
      });
    } else if (s.columns == 0) {
      s.zeroed = s.zeroed || place.kind == Place::Kind::made;
      for (std::size_t limb = 0; limb < v.limbs; ++limb) {
        if (is_read(limb)) meet(limb, Residues::kAny);
      }
    } else {
      each_slot(s, v, [&](std::size_t limb, std::size_t slot, bool) {
        if (!is_read(limb)) return;
        if (!s.filled[slot]) s.zeroed = true;
        meet(limb, s.below[slot]);
      });
    }
    return found;
  }

  void write(u32 number, const View& v, const std::vector<u64>& below, bool covers, const Session* session) {
    State& s = states_[number];
    if (!s.first) s.first = session;
    if (v.words() == 0 || s.columns == 0) return;
    const bool all_items = by_columns(s, v) && v.items() == s.items;
    if (!all_items) covers = detail(s) && covers;
    each_slot(s, v, [&](std::size_t limb, std::size_t slot, bool whole) {
      if (below[limb] == 0) return;
      const bool fills = covers && whole;
      s.below[slot] = fills ? below[limb] : std::max(s.below[slot], below[limb]);
      if (fills) s.filled[slot] = true;
    });
  }

  /// Returns the starts of all limbs of a view in ascending order.
  std::vector<std::ptrdiff_t> limbs_of(const View& v) {
    const std::size_t count = v.items() * v.components * v.limbs;
    require<LimitError>(count <= kMostSlots, "cannot verify this program: operands of too many limbs share a place");
    count_visits(count);
    std::vector<std::ptrdiff_t> begins;
    begins.reserve(count);
    for (std::size_t i = 0; i < v.items(); ++i) {
      for (std::size_t c = 0; c < v.components; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l)
          begins.push_back(byte_offset(v) + v.offset(i, c, l) * static_cast<std::ptrdiff_t>(v.word_size()));
      }
    }
    std::sort(begins.begin(), begins.end());
    return begins;
  }

  bool meet(const View& a, const View& b) {
    const Range first = range_of(a), second = range_of(b);
    if (byte_offset(a) + first.last <= byte_offset(b) + second.first ||
        byte_offset(b) + second.last <= byte_offset(a) + first.first)
      return false;
    const std::vector<std::ptrdiff_t> one = limbs_of(a), other = limbs_of(b);
    const auto length = [](const View& v) { return static_cast<std::ptrdiff_t>(v.n * v.word_size()); };
    for (std::size_t i = 0, k = 0; i < one.size() && k < other.size();) {
      if (one[i] + length(a) <= other[k])
        ++i;
      else if (other[k] + length(b) <= one[i])
        ++k;
      else
        return true;
    }
    return false;
  }

  struct Operand {
    View view;
    Access access = Access::read;
    u32 place = 0;
  };

  /// Checks that a result is written once and overlaps no operand, except if the kernel works in place on that operand.
  void verify_apart(const Step& step, const std::vector<Operand>& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& out = operands[i];
      if (out.access == Access::read || out.view.words() == 0) continue;
      require_right(lies_apart(out.view), "cannot load this program: a call must not write a word twice");
      for (std::size_t k = 0; k < operands.size(); ++k) {
        const Operand& other = operands[k];
        if (k == i || other.place != out.place || other.view.words() == 0) continue;
        const bool same = other.access == Access::read && other.view.data == out.view.data &&
                          device::form_of(other.view) == device::form_of(out.view);
        require_right((same && device::works_in_place(step.call)) || !meet(out.view, other.view),
                      "cannot load this program: a call must not overwrite its operands");
      }
    }
  }

  // ---- calls

  void verify_step(Step& step) {
    Call call = step.call;
    std::vector<Operand> operands;
    device::each_view(call, [&](View& v, Access access) {
      const u32 place = step.places[operands.size()];
      look(place, v);
      require_right(access == Access::read || parts_.places[place].kind == Place::Kind::made,
                    "cannot load this program: it must write only memory that it makes");
      operands.push_back({v, access, place});
      v.data = at((u64{place} + 1) * kSpan + number_of(v.data));
    });
    give_keys(step, call);
    verify_shapes(step, call);
    verify_apart(step, operands);
    const std::vector<Residues> residues = device::residues_of(call);
    require<InternalError>(residues.size() == operands.size(), "residues_of and each_view must list the same operands");
    std::vector<std::vector<u64>> found(operands.size());  // bounds before the call writes
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].access != Access::write) found[i] = read(operands[i].place, operands[i].view, residues[i]);
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& o = operands[i];
      if (o.access == Access::read) continue;
      write(o.place, o.view, residues[i].copied ? found[i - 1] : residues[i].below, residues[i].covers, step.session);
    }
  }

  /// Gives a TFHE call keys of the parameters' shapes, for the checks.
  void give_keys(const Step& step, Call& call) const {
    const ParameterSet& set = around_.of(step.session);
    bool wanted = false;
    const auto give = [&](auto& key, const auto& of) {
      require_right(key == nullptr && of != nullptr, "cannot load this program: its TFHE calls must have TFHE parameters");
      key = of, wanted = true;
    };
    if (auto* const c = std::get_if<device::Evaluate>(&call)) {
      if (!c->layer->layer().linear()) give(c->switch_key, set.switch_key), give(c->key, set.bootstrap_key);
    }
    if (auto* const c = std::get_if<device::LweKeySwitch>(&call)) give(c->key, set.switch_key);
    if (auto* const c = std::get_if<device::Bootstrap>(&call)) give(c->key, set.bootstrap_key);
    const bool evaluates = std::holds_alternative<device::Evaluate>(call);
    require_right(
        step.source == Step::kNoSource ? !wanted && !evaluates : (wanted || evaluates) && step.source < around_.sources,
        "cannot load this program: a call must have keys exactly if its kernel uses them");
  }

  void verify_shapes(Step& step, Call& call) {
    device::check(call);
    scratch_.push_back(step.session->scratch_wanted(call));
    device::give_scratch(call, device::Workspace(nullptr, device::scratch_bytes(call, device::items_of(call))));
    step.work = device::work(call), step.bytes = device::operand_bytes(call);
    products_ += step.work.products;
    require<LimitError>(products_ <= limits_.products,
                        "cannot load this program: it computes more products than the limit of its caller");
  }

  // ---- the whole program

  void add_zeros() {
    std::vector<Step> zeros;
    for (u32 p = 0; p < states_.size(); ++p) {
      if (!states_[p].zeroed) continue;
      require_right(states_[p].first != nullptr, "cannot load this program: it reads a tensor that no call writes");
      Step zero{.session = states_[p].first, .call = device::Zero{parts_.places[p].shape}, .places = {p}, .work = {}};
      zero.work = device::work(zero.call), zero.bytes = device::operand_bytes(zero.call);
      zeros.push_back(std::move(zero));
    }
    scratch_.insert(scratch_.begin(), zeros.size(), 0);
    parts_.steps.insert(parts_.steps.begin(), std::make_move_iterator(zeros.begin()), std::make_move_iterator(zeros.end()));
  }

  /// Checks the peak memory of a replay against its limit.
  void require_room() const {
    const std::size_t steps = parts_.steps.size();
    std::vector<u32> first(parts_.places.size(), ~u32{0}), last(parts_.places.size());
    for (u32 s = 0; s < steps; ++s) {
      for (const u32 p : parts_.steps[s].places) first[p] = std::min(first[p], s), last[p] = s;
    }
    std::vector<__int128> begins(steps + 1), ends(steps + 1);
    for (std::size_t p = 0; p < parts_.places.size(); ++p) {
      if (parts_.places[p].kind != Place::Kind::made || first[p] == ~u32{0}) continue;
      const auto bytes = static_cast<__int128>(parts_.places[p].shape.bytes());
      begins[first[p]] += bytes;
      if (!parts_.places[p].result) ends[last[p]] += bytes;
    }
    __int128 live = 0, peak = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      live += begins[s];
      peak = std::max(peak, live + static_cast<__int128>(scratch_[s]));
      live -= ends[s];
    }
    require_room(peak);
  }
  void require_room(__int128 bytes) const {
    if (bytes <= static_cast<__int128>(limits_.bytes)) return;
    const auto shown = static_cast<std::size_t>(std::min<__int128>(bytes, std::size_t{1} << 62));
    throw LimitError("cannot load this program: a run takes " + readable_bytes(shown) +
                     " of memory, and its caller allows " + readable_bytes(limits_.bytes));
  }

  Program::Parts& parts_;
  const std::vector<std::span<const std::byte>>& words_;
  const Surroundings& around_;
  const Limits& limits_;
  std::vector<State> states_;
  std::vector<std::size_t> scratch_;  // indexed by step
  std::size_t slots_ = 0, visits_ = 0;
  __int128 products_ = 0;
};

}  // namespace

const ParameterSet& Surroundings::of(const Session* session) const {
  const auto found = std::find_if(sets.begin(), sets.end(), [&](const ParameterSet& s) { return s.session == session; });
  require<InternalError>(found != sets.end(), "a program must list all of its parameter sets");
  return *found;
}

std::vector<std::vector<u64>> verify(Program::Parts& parts, const std::vector<std::span<const std::byte>>& words,
                                     const Surroundings& around, const Limits& limits) {
  return Verifier(parts, words, around, limits).run();
}

}  // namespace heliograph::program
