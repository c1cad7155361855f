#include "program/file.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <typeindex>

#include "device/chunks.h"
#include "device/expand.h"
#include "device/shape.h"
#include "math/conversion.h"

namespace heliograph::program {

namespace {

using math::Conversion;

constexpr std::size_t kMostLimbs = std::size_t{1} << 20;    // of a place, that are followed
constexpr std::size_t kMostPrimes = 4 * device::kMaxLimbs;  // of a ring
constexpr std::size_t kMostPlaces = std::size_t{1} << 18, kMostSteps = std::size_t{1} << 20;
/// Apart from each other while a program is checked: where each place is thought to begin.
constexpr u64 kSpan = u64{1} << 44;

std::byte* at(u64 address) { return reinterpret_cast<std::byte*>(address); }
u64 number_of(const std::byte* address) { return reinterpret_cast<u64>(address); }

/// The first and one past the last byte that a view shows, from its first item's on.
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

/// Whether each limb lies at a multiple of 64 bytes, or of its own length where that is less: what loops of vectors take for
/// granted.
bool is_aligned(const View& v) {
  const std::size_t words = std::max<std::size_t>(1, std::min<std::size_t>(64 / v.word_size(), v.n));
  const auto fits = [&](auto stride) { return static_cast<u64>(stride) % words == 0; };
  bool all = number_of(v.data) % (words * v.word_size()) == 0;
  for (int i = 0; i < v.axes; ++i) all = all && (v.shape[i] <= 1 || fits(v.stride[i] < 0 ? -v.stride[i] : v.stride[i]));
  return all && (v.components <= 1 || fits(v.component_stride)) && (v.limbs <= 1 || fits(v.limb_stride));
}

// One list of fields serves writing and reading: an archive is called with each of them. What is named more than once, a
// constant or a plan, is written where it is met first, and by its number from then on.

template <class Archive>
void fields(Archive& a, PrimeList& list) {
  std::vector<u64> primes(list.begin(), list.end());
  a(primes);
  if constexpr (Archive::reads) {
    a.require(
        primes.size() <= device::kMaxLimbs && std::all_of(primes.begin(), primes.end(), [](u64 p) { return p >> 16 == 0; }),
        "a list of primes");
    list = {};
    for (const u64 p : primes) list.push_back(static_cast<math::PrimeIndex>(p));
  }
}

template <class Archive>
void fields(Archive& a, device::LimbConstants& c) {
  std::size_t used = c.size();
  while (used > 0 && c[used - 1] == 0) --used;
  std::vector<u64> values(c.begin(), c.begin() + used);
  a(values);
  if constexpr (Archive::reads) {
    a.require(values.size() <= c.size(), "a list of constants");
    c = {};
    std::copy(values.begin(), values.end(), c.begin());
  }
}

template <class Archive>
void fields(Archive& a, View& v) {
  u64 address = number_of(v.data), word = static_cast<u64>(v.word), axes = static_cast<u64>(v.axes);
  a(address), a(word), a(axes);
  if constexpr (Archive::reads) {
    a.require((word == 4 || word == 8) && axes <= device::kMaxAxes, "a view");
    v = {.data = at(address), .word = static_cast<math::Word>(word), .axes = static_cast<int>(axes)};
  }
  for (u64 i = 0; i < axes; ++i) a(v.shape[i]), a(v.stride[i]);
  a(v.components), a(v.component_stride), a(v.limbs), a(v.limb_stride), a(v.n);
  if constexpr (Archive::reads) v.check_extent();
}

template <class Archive>
void fields(Archive& a, device::DividePlan::Run& run) {
  a(run.from), a(run.to), a(run.count);
}
template <class Archive>
void fields(Archive& a, device::DividePlan& p) {
  a(p.ring), a(p.primes), a(p.out), a(p.kept), a(p.divided), a(p.rest), a(p.own);
}
template <class Archive>
void fields(Archive& a, device::KeySwitchPlan::Digit& d) {
  a(d.first), a(d.count), a(d.others), a(d.raise);
}
template <class Archive>
void fields(Archive& a, device::KeySwitchPlan& p) {
  a(p.ring), a(p.chain), a(p.special), a(p.digits), a(p.extended), a(p.key_limbs), a(p.mod_down), a(p.weight);
  fields(a, p.down);
}
template <class Archive>
void fields(Archive& a, device::LinearPlan::Term& t) {
  a(t.giant), a(t.baby);
}
template <class Archive>
void fields(Archive& a, device::LinearPlan& p) {
  a(p.key_switch), a(p.mod_down), a(p.babies), a(p.giants), a(p.terms);
}
template <class Archive>
void fields(Archive& a, device::MultiplyPlan& p) {
  a(p.ring), a(p.chain), a(p.auxiliary), a(p.extended), a(p.lift), a(p.scale), a(p.lower);
}

// Constants are made by a constructor that checks them.

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::RingConstant>& c) {
  u64 n = 0, word = 0, transforms = 0;
  std::vector<u64> primes;
  if constexpr (!Archive::reads)
    n = c->ring().n(), word = math::word_bytes(c->ring().word()), transforms = c->ring().transforms(),
    primes = c->ring().primes();
  a(n), a(word), a(transforms), a(primes);
  if constexpr (Archive::reads) {
    a.require((word == 4 || word == 8) && primes.size() <= kMostPrimes, "a ring");
    const auto w = static_cast<math::Word>(word);
    c = std::make_shared<const device::RingConstant>(std::make_shared<const math::Ring>(
        transforms ? math::Ring(n, w, std::move(primes)) : math::Ring::rows(n, w, std::move(primes))));
  }
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::ConversionConstant>& given) {
  Conversion c;
  if constexpr (!Archive::reads) c = given->conversion();
  u64 rounded = c.rounded;
  a(c.from), a(c.to), a(c.inverse), a(c.matrix), a(c.own), a(c.wrap), a(rounded);
  if constexpr (Archive::reads) {
    c.rounded = rounded != 0;
    const auto residues = [](const std::vector<u64>& values, const std::vector<u64>& of, std::size_t each) {
      if (values.size() != of.size() * each) return false;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= of[i / each]) return false;
      }
      return true;
    };
    const auto modulus = [](u64 q) { return q > 1 && q <= u64{1} << 60; };
    const std::size_t sources = c.sources();
    a.require(sources > 0 && sources < 64 && c.targets() > 0 && c.targets() <= device::kMaxLimbs &&
                  std::all_of(c.from.begin(), c.from.end(), modulus) && std::all_of(c.to.begin(), c.to.end(), modulus) &&
                  residues(c.inverse, c.from, 1) && residues(c.matrix, c.to, sources) &&
                  (c.own.empty() || residues(c.own, c.to, 1)) && (c.wrap.empty() || residues(c.wrap, c.to, 1)) &&
                  (!c.rounded || !c.wrap.empty()),
              "a conversion");
    c.fixed = math::fixed_point(c.from);
    given = std::make_shared<const device::ConversionConstant>(std::move(c));
  }
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::PermutationConstant>& given) {
  device::Permutation p;
  std::vector<u64> negate;
  if constexpr (!Archive::reads) {
    p = given->permutation();
    negate.assign(p.negate.begin(), p.negate.end());
  }
  a(p.source), a(negate);
  if constexpr (Archive::reads) {
    p.negate.assign(negate.begin(), negate.end());
    given = std::make_shared<const device::PermutationConstant>(std::move(p));
  }
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::ProductConstant>& given) {
  device::GatheredProduct p;
  if constexpr (!Archive::reads) p = given->product();
  a(p.groups), a(p.outputs), a(p.positions), a(p.terms), a(p.inputs), a(p.weights), a(p.index);
  if constexpr (Archive::reads) given = std::make_shared<const device::ProductConstant>(std::move(p));
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::LayerConstant>& given) {
  device::GateLayer l;
  if constexpr (!Archive::reads) l = given->layer();
  a(l.first), a(l.source), a(l.weight), a(l.constant), a(l.lut), a(l.target), a(l.outputs), a(l.tables), a(l.degree);
  if constexpr (Archive::reads) given = std::make_shared<const device::LayerConstant>(std::move(l));
}

/// A plan.
template <class Archive, class Plan>
void constant(Archive& a, std::shared_ptr<const Plan>& given) {
  auto plan = std::make_shared<Plan>();
  if constexpr (!Archive::reads) *plan = *given;
  fields(a, *plan);
  if constexpr (Archive::reads) {
    device::check(*plan);
    given = std::move(plan);
  }
}

/// What no recording holds.
template <class T>
concept OfTfheKeys = std::is_same_v<T, device::BootstrapKey> || std::is_same_v<T, device::LweSwitchKey>;
template <class T>
concept Unsaved = OfTfheKeys<T> || std::is_same_v<T, device::LimbSumConstant>;

class Writer {
 public:
  static constexpr bool reads = false;
  const std::vector<u64>& words() const { return words_; }

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(const T& value) { words_.push_back(static_cast<u64>(value)); }
  template <class T>
  void operator()(std::vector<T>& list) {
    words_.push_back(list.size());
    for (T& value : list) (*this)(value);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    words_.push_back(value.has_value());
    if (value) (*this)(*value);
  }
  template <class T>
  void operator()(device::Common<T>& value) {
    T copy = *value;
    (*this)(copy);
  }
  template <class T>
  void operator()(std::shared_ptr<const T>& pointer) {
    auto& known = known_[std::type_index(typeid(T))];
    const auto found = std::find(known.begin(), known.end(), pointer.get());
    words_.push_back(pointer ? static_cast<u64>(found - known.begin()) + 1 : 0);
    if (!pointer || found != known.end()) return;
    if constexpr (Unsaved<T>) {
      throw RecordingError("a program with TFHE keys of its own cannot be saved: call it with operands that bring them");
    } else {
      constant(*this, pointer);
      known_[std::type_index(typeid(T))].push_back(pointer.get());
    }
  }
  void operator()(device::Piece& piece) { (*this)(piece.from), (*this)(piece.to); }
  void operator()(Secret<device::Draw>&) { throw InternalError("a program draws nothing"); }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) { fields(*this, value); }

 private:
  std::vector<u64> words_;
  std::map<std::type_index, std::vector<const void*>> known_;
};

class Reader {
 public:
  static constexpr bool reads = true;
  explicit Reader(std::span<const u64> words) : words_(words) {}

  void require(bool right, const char* what) const {
    if (!right) throw DamagedFileError(std::string("a saved program holds ") + what + " that is none");
  }
  void finish() const { require(next_ == words_.size(), "something behind its end"); }
  u64 take() {
    require(next_ < words_.size(), "an end");
    return words_[next_++];
  }
  std::size_t below(std::size_t limit, const char* what) {
    const u64 value = take();
    require(value < limit, what);
    return value;
  }

  template <class T>
  requires std::is_integral_v<T>
  void operator()(T& value) {
    const u64 word = take();
    value = static_cast<T>(word);
    require(static_cast<u64>(value) == word, "a number");
  }
  void operator()(math::Domain& value) { value = static_cast<math::Domain>(below(2, "a domain")); }
  template <class T>
  void operator()(std::vector<T>& list) {
    const u64 count = take();
    require(count <= words_.size() - next_, "a list");
    list.clear(), list.resize(count);
    for (T& value : list) (*this)(value);
  }
  /// As many as a call has terms: each is much longer than the word that a wrong count takes.
  void operator()(std::vector<device::LimbConstants>& list) {
    list.resize(below(device::WeightedSum::kMost + 1, "a list of weights"));
    for (device::LimbConstants& weights : list) (*this)(weights);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    value.reset();
    if (below(2, "a mark")) (*this)(value.emplace());
  }
  template <class T>
  void operator()(device::Common<T>& value) {
    T copy{};
    (*this)(copy);
    value = device::Common<T>(copy);
  }
  template <class T>
  void operator()(std::shared_ptr<const T>& pointer) {
    auto& known = std::get<Known<T>>(known_);
    const std::size_t number = below(known.size() + 2, "a constant");
    pointer = number > 0 && number <= known.size() ? known[number - 1] : nullptr;
    if (number <= known.size()) return;
    if constexpr (Unsaved<T>) {
      require(false, "a constant that no recording has");
    } else {
      constant(*this, pointer);
      known.push_back(pointer);
    }
  }
  void operator()(device::Piece& piece) { (*this)(piece.from), (*this)(piece.to); }
  void operator()(Secret<device::Draw>&) { require(false, "a draw"); }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) { fields(*this, value); }

 private:
  template <class T>
  using Known = std::vector<std::shared_ptr<const T>>;

  std::span<const u64> words_;
  std::size_t next_ = 0;
  std::tuple<Known<device::RingConstant>, Known<device::ConversionConstant>, Known<device::PermutationConstant>,
             Known<device::ProductConstant>, Known<device::LayerConstant>, Known<device::BootstrapKey>,
             Known<device::LweSwitchKey>, Known<device::DividePlan>, Known<device::KeySwitchPlan>, Known<device::LinearPlan>,
             Known<device::MultiplyPlan>, Known<device::LimbSumConstant>>
      known_;
};

template <class Archive, class C>
void all_fields(Archive& a, C& call) {
  std::apply([&](auto&... field) { (a(field), ...); }, C::fields(call));
}

/// A call of the kernel of that number in the variant.
template <std::size_t... i>
Call call_of(std::size_t number, std::index_sequence<i...>) {
  Call call;
  ((i == number ? void(call = std::variant_alternative_t<i, Call>{}) : void()), ...);
  return call;
}

u64 session_number(const std::vector<const Session*>& sessions, const Session* session) {
  const auto found = std::find(sessions.begin(), sessions.end(), session);
  if (found == sessions.end())
    throw RecordingError("a program that computes with more parameters than its operands' cannot be saved");
  return static_cast<u64>(found - sessions.begin());
}

/// The session that uses each place.
std::vector<const Session*> users(const Program::Parts& parts) {
  std::vector<const Session*> of(parts.places.size());
  for (const Step& step : parts.steps) {
    for (const u32 p : step.places) of[p] = step.session;
  }
  return of;
}

/// A whole place as words one after another, whatever is shown of it.
View row_of(const Buffer& memory) {
  View row = View::dense(memory->address(), math::Word::w32, {}, 1, 1, memory->bytes() / 4);
  row.memory = memory;
  return row;
}

}  // namespace

void write(const Program::Parts& parts, const std::vector<const Session*>& sessions, io::Container& to) {
  std::vector<io::Array> constants;
  const std::vector<const Session*> user = users(parts);
  Writer w;
  w(parts.places.size());
  for (std::size_t p = 0; p < parts.places.size(); ++p) {
    Place place = parts.places[p];
    if (!place.alone) throw RecordingError("a program whose operands share memory cannot be saved");
    if (place.secrecy != Secrecy::open) throw RecordingError("a program that computes with a secret key cannot be saved");
    const bool holds = place.kind == Place::Kind::constant && place.memory && user[p];
    w(place.kind), w(place.number), w(place.which), w(place.alone), w(place.result);
    place.shape.data = nullptr;
    w(place.shape), w(place.primes), w(holds);
    if (!holds) continue;
    w(session_number(sessions, user[p]));
    const std::size_t bytes = place.memory->bytes();
    constants.push_back(io::Array::made("constant" + std::to_string(constants.size()), "u8", {bytes},
                                        [session = user[p], memory = place.memory, bytes] {
                                          auto words = session->host_array<std::byte>(bytes, "saving a program");
                                          session->download(row_of(memory), words);
                                          return io::Held::of(std::move(words));
                                        }));
  }
  w(parts.steps.size());
  for (const Step& step : parts.steps) {
    w(session_number(sessions, step.session)), w(step.call.index()), w(step.source);
    Call call = step.call;
    std::visit([&](auto& c) { all_fields(w, c); }, call);
    for (const u32 p : step.places) w(p);
  }
  w(parts.results.size());
  for (const Shown& shown : parts.results) {
    View view = shown.view;
    w(shown.place), w(view);
  }
  io::Json kernels = io::Json::array();
  for (const char* const name : device::kernel_names()) kernels.push_back(name);
  to.header["kernels"] = std::move(kernels);
  to.arrays.push_back(io::Array::holding<u64>("calls", {w.words().size()}, io::Held::of(w.words())));
  std::move(constants.begin(), constants.end(), std::back_inserter(to.arrays));
}

namespace {

/// Reads one program.
class Loading {
 public:
  Loading(io::Container& from, const std::vector<const Session*>& sessions, std::size_t sources)
      : from_(from), sessions_(sessions), sources_(sources), r_(calls_of(from_)) {
    const std::vector<const char*> names = device::kernel_names();
    for (const io::Json& name : from_.header.array_at("kernels", 256)) {
      const auto found = std::find_if(names.begin(), names.end(),
                                      [&](const char* own) { return name.as_string("a kernel's name", 64) == own; });
      if (found == names.end()) throw VersionError("a saved program uses a kernel that this version does not have");
      kernels_.push_back(static_cast<std::size_t>(found - names.begin()));
    }
  }

  Program::Parts run() {
    for (std::size_t i = 0, count = r_.below(kMostPlaces, "a number of places"); i < count; ++i) read_place();
    for (std::size_t i = 0, count = r_.below(kMostSteps, "a number of calls"); i < count; ++i) read_step();
    for (std::size_t i = 0, count = r_.below(kMostPlaces, "a number of results"); i < count; ++i) {
      Shown shown;
      shown.place = static_cast<u32>(r_.below(parts_.places.size(), "a place"));
      r_(shown.view);
      look(shown.place, shown.view);
      r_.require(parts_.places[shown.place].kind != Place::Kind::key, "a result");
      reads(shown.place, shown.view);
      parts_.results.push_back(std::move(shown));
    }
    r_.finish();
    begin_with_zeros();
    const auto constants = std::count_if(from_.arrays.begin(), from_.arrays.end(),
                                         [](const io::Array& a) { return a.name.starts_with("constant"); });
    r_.require(static_cast<std::size_t>(constants) == arrays_, "a constant");
    return std::move(parts_);
  }

 private:
  static std::span<const u64> calls_of(const io::Container& from) {
    const io::Array* const calls = from.find("calls");
    if (!calls || calls->dtype != "u64" || calls->shape.size() != 1) throw DamagedFileError("a saved program has no calls");
    return calls->values<u64>();
  }

  void read_place() {
    Place p;
    p.kind = static_cast<Place::Kind>(r_.below(4, "a kind of place"));
    r_(p.number), r_(p.which), r_(p.alone);
    r_(p.result), r_(p.shape), r_(p.primes);
    r_.require(p.shape.data == nullptr && (p.kind != Place::Kind::key || p.number < sources_), "a place");
    r_.require(p.kind == Place::Kind::made || !p.result, "a result");
    Range held = range_of(p.shape);
    if (p.kind == Place::Kind::made) {
      r_.require(device::is_dense(p.shape) && (p.primes.size() == 0 || p.primes.size() == p.shape.limbs), "a tensor");
      held = {0, static_cast<__int128>(p.shape.bytes())};
    }
    if (r_.below(2, "a mark")) {
      r_.require(p.kind == Place::Kind::constant, "a constant");
      const Session& session = *sessions_[r_.below(sessions_.size(), "a session")];
      const io::Array* const words = from_.find("constant" + std::to_string(arrays_++));
      r_.require(words && words->dtype == "u8" && words->shape.size() == 1 && words->bytes() % 4 == 0, "a constant");
      const bool whole = device::is_dense(p.shape) && p.shape.bytes() == words->bytes() && p.shape.n > 0;
      p.memory = whole ? session.allocate(p.shape, p.primes) : session.allocate(words->bytes());
      session.upload(from_.take(words->name, "u8", words->shape).bytes, row_of(p.memory));
      p.origin = p.memory;
      held = {0, static_cast<__int128>(words->bytes())};
    } else if (p.kind == Place::Kind::constant) {
      held = {};  // nothing of it is shown
    } else if (p.kind == Place::Kind::key) {
      held = {0, static_cast<__int128>(kSpan / 2)};  // as far as the key goes: asked at each replay
    }
    r_.require(held.first > -static_cast<__int128>(kSpan / 4) && held.last <= static_cast<__int128>(kSpan / 2), "a place");
    held_.push_back(held), filled_.emplace_back();
    parts_.places.push_back(std::move(p));
  }

  /// A view of a place shows nothing beyond it. A key's place grows.
  void look(u32 place, const View& v) {
    const auto offset = static_cast<__int128>(reinterpret_cast<std::ptrdiff_t>(v.data));
    const Range shown = range_of(v);
    const Range& held = held_[place];
    const bool nothing = v.words() == 0;
    r_.require(nothing || (offset + shown.first >= held.first && offset + shown.last <= held.last), "a view");
    r_.require(is_aligned(v), "a view");
    Place& p = parts_.places[place];
    if (p.kind == Place::Kind::key && !nothing) p.reach = std::max(p.reach, static_cast<std::size_t>(offset + shown.last));
  }

  /// Calls `f` with the number of each limb of a place that a view shows; false where it shows no whole limbs, or too many to follow.
  template <class F>
  bool each_limb(u32 place, const View& v, F f) const {
    const View& all = parts_.places[place].shape;
    const std::size_t limb = all.n * all.word_size();
    const std::size_t most = std::max(all.items() * all.components * all.limbs, v.items() * v.components * v.limbs);
    if (v.n != all.n || v.word != all.word || limb == 0 || most > kMostLimbs) return false;
    const auto offset = static_cast<std::size_t>(reinterpret_cast<std::ptrdiff_t>(v.data));
    for (std::size_t i = 0; i < v.items(); ++i) {
      for (std::size_t c = 0; c < v.components; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          const std::size_t at = offset + static_cast<std::size_t>(v.offset(i, c, l)) * v.word_size();
          if (at % limb != 0) return false;
          f(at / limb);
        }
      }
    }
    return true;
  }

  /// What is read was written before. If not, or where that cannot be told, its place begins with zeros, so that a program shows
  /// nothing of what lay there before.
  void reads(u32 place, const View& v) {
    Filled& f = filled_[place];
    if (parts_.places[place].kind != Place::Kind::made || f.from_zero || v.words() == 0) return;
    bool all = !f.limbs.empty();
    all = all && each_limb(place, v, [&](std::size_t limb) { all = all && f.limbs[limb]; }) && all;
    f.from_zero = !all;
  }
  void writes(u32 place, const View& v, const Session* session) {
    Filled& f = filled_[place];
    if (!f.first) f.first = session;
    const View& all = parts_.places[place].shape;
    const std::size_t limbs = all.items() * all.components * all.limbs;
    if (f.limbs.empty() && limbs <= kMostLimbs) f.limbs.resize(limbs);
    if (v.words() == all.words() && v.word == all.word && device::is_dense(v))
      f.limbs.assign(f.limbs.size(), true);
    else if (!f.limbs.empty())
      each_limb(place, v, [&](std::size_t limb) { f.limbs[limb] = true; });
  }
  void begin_with_zeros() {
    std::vector<Step> zeros;
    for (u32 p = 0; p < filled_.size(); ++p) {
      if (!filled_[p].from_zero) continue;
      r_.require(filled_[p].first != nullptr, "a tensor");  // that no call writes
      Step zero{.session = filled_[p].first, .call = device::Zero{parts_.places[p].shape}, .places = {p}, .work = {}};
      zero.work = device::work(zero.call), zero.bytes = device::operand_bytes(zero.call);
      zeros.push_back(std::move(zero));
    }
    parts_.steps.insert(parts_.steps.begin(), std::make_move_iterator(zeros.begin()), std::make_move_iterator(zeros.end()));
  }

  void read_step() {
    Step step;
    step.session = sessions_[r_.below(sessions_.size(), "a session")];
    step.call =
        call_of(kernels_[r_.below(kernels_.size(), "a kernel")], std::make_index_sequence<std::variant_size_v<Call>>());
    r_(step.source);
    r_.require(step.source == Step::kNoSource || step.source < sources_, "a set of keys");
    std::visit([&](auto& c) { all_fields(r_, c); }, step.call);
    device::each_view(step.call, [&](View& v, device::Access) {
      const auto place = static_cast<u32>(r_.below(parts_.places.size(), "a place"));
      look(place, v);
      step.places.push_back(place);
      v.data = at((u64{place} + 1) * kSpan + number_of(v.data));
    });
    check(step);
    std::size_t k = 0;
    device::each_view(step.call, [&](View& v, device::Access access) {
      const u32 place = step.places[k++];
      v.data = at(number_of(v.data) - (u64{place} + 1) * kSpan);
      const Place::Kind kind = parts_.places[place].kind;
      r_.require(access == device::Access::read || kind == Place::Kind::made, "a call that writes what is not its own");
      if (access != device::Access::write) reads(place, v);
    });
    k = 0;
    device::each_view(step.call, [&](const View& v, device::Access access) {
      const u32 place = step.places[k++];
      if (access != device::Access::read) writes(place, v, step.session);
    });
    parts_.steps.push_back(std::move(step));
  }

  /// Operands fit the kernel, and its constants are prepared.
  void check(Step& step) {
    const bool tfhe = std::visit(
        [](const auto& c) {
          return requires { c.layer; };
        },
        step.call);
    std::visit(
        [&](auto& c) {
          device::each_constant(c, [&]<class T>(std::shared_ptr<const T>& constant) {
            constexpr bool optional = std::is_same_v<T, device::PermutationConstant> || OfTfheKeys<T>;
            r_.require(constant != nullptr || optional, "a call without its constants");
            if constexpr (std::is_same_v<T, device::LayerConstant>)
              step.session->device().tfhe().prepare(*constant);
            else if constexpr (!OfTfheKeys<T>)
              if (constant) step.session->kernels().prepare(*constant);
          });
        },
        step.call);
    r_.require(!std::holds_alternative<device::Permute>(step.call) || std::get<device::Permute>(step.call).permutation,
               "a call without its constants");
    r_.require((step.source != Step::kNoSource) == (tfhe && !std::holds_alternative<device::Combine>(step.call)),
               "a call without its keys");
    if (tfhe && step.source != Step::kNoSource) return;  // checked with its keys at each replay
    device::check(step.call);
    device::give_scratch(step.call,
                         device::Workspace(nullptr, device::scratch_bytes(step.call, device::items_of(step.call))));
    step.work = device::work(step.call), step.bytes = device::operand_bytes(step.call);
    device::give_scratch(step.call, {});
  }

  io::Container& from_;
  const std::vector<const Session*>& sessions_;
  const std::size_t sources_;
  Reader r_;
  std::vector<std::size_t> kernels_;
  Program::Parts parts_;
  std::vector<Range> held_;  // of each place: bytes that may be shown
  /// What calls have written of a place that the program makes.
  struct Filled {
    const Session* first = nullptr;  // of the first call that writes there
    std::vector<bool> limbs;         // empty: nothing, or too many
    bool from_zero = false;
  };
  std::vector<Filled> filled_;
  std::size_t arrays_ = 0;  // of constants so far
};

}  // namespace

Program::Parts read(io::Container& from, const std::vector<const Session*>& sessions, std::size_t sources) {
  try {
    return Loading(from, sessions, sources).run();
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string("a saved program's constants are impossible: ") + e.what());
  } catch (const ShapeError& e) {
    throw DamagedFileError(std::string("a saved program's calls do not fit their operands: ") + e.what());
  } catch (const MismatchError& e) {
    throw DamagedFileError(std::string("a saved program's calls do not fit their operands: ") + e.what());
  }
}

}  // namespace heliograph::program
