#include "schemes/ckks/guards.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/errors.h"
#include "math/reducer.h"
#include "schemes/ckks/decrypt.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

/// Largest number of names in a guard; further names are replaced by kOthers.
constexpr std::size_t kNames = 16;
constexpr const char* kOthers = "other operations";

/// Limits on guards in files: length of a name, power.
constexpr std::size_t kText = 256;
constexpr double kLargestPower = 0x1p20;

/// Largest relative difference of scales in a sum. The scale difference changes the squares by this share.
constexpr double kSameScale = 0x1p-10;

/// A sum of squares must stay this factor below the room, so that a wrapped sum is outside the limit with high probability.
constexpr double kBelowRoom = 0x1p-6;

bool contains(const Guard& a, const Guard& b) {
  return std::includes(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end());
}

std::vector<std::string> united(std::vector<std::string> names, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (names.size() + 1 < kNames)
      names.push_back(name);
    else if (names.back() != kOthers)
      names.emplace_back(kOthers);
  }
  return names;
}

/// Returns whether the sum of two guards' squares fits their modulus and needs no change of scale.
bool can_join(const Guard& a, const Guard& b) {
  const CiphertextData &x = *a.squares, &y = *b.squares;
  if (x.context != y.context || x.key != y.key || x.level != y.level) return false;
  if (std::abs(x.scale / y.scale - 1) > kSameScale) return false;
  return std::log2(a.limit + b.limit) < fits(x).room + std::log2(kBelowRoom);
}

Guard sum_of(const Guard& a, const Guard& b) {
  Guard sum{.operations = united(a.operations, b.operations), .squares = {}, .parts = {}};
  CiphertextData other = *b.squares;
  other.scale = a.squares->scale;
  const Ciphertext total = add(Ciphertext(a.squares), finish(std::move(other)));
  sum.squares = std::make_shared<const CiphertextData>(total.data());
  sum.limit = a.limit + b.limit * (1 + kSameScale), sum.noise = a.noise + b.noise, sum.power = std::min(a.power, b.power);
  std::set_union(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), std::back_inserter(sum.parts));
  return sum;
}

/// Joins the two guards whose sum notices the smallest excess; guards of equal operations first. Returns false if no two can
/// be joined.
bool join_two(std::vector<Guards::Item>& list) {
  std::pair<bool, double> least{true, std::numeric_limits<double>::infinity()};
  std::optional<std::pair<std::size_t, std::size_t>> best;
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = i + 1; j < list.size(); ++j) {
      const Guard &a = *list[i], &b = *list[j];
      if (!can_join(a, b)) continue;
      const Guard both{.operations = {},
                       .squares = {},
                       .limit = a.limit + b.limit,
                       .noise = a.noise + b.noise,
                       .power = std::min(a.power, b.power),
                       .parts = {}};
      const std::pair<bool, double> cost{a.operations != b.operations, both.excess()};
      if (!best || cost < least) best = {i, j}, least = cost;
    }
  if (!best) return false;
  list[best->first] = std::make_shared<const Guard>(sum_of(*list[best->first], *list[best->second]));
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(best->second));
  return true;
}

/// Calls `each` with a mask for every slot: all ones if the decrypted sum of squares exceeds the guard's limit.
template <class F>
void compare_slots(const SecretKeyData& key, const Guard& guard, const F& each) {
  const Values values = decrypted(key, *guard.squares, Checked::none, {});
  for (const std::complex<double>& v : values.data) each(math::mask_of(!(std::abs(v.real()) <= guard.limit)));
}

/// Returns whether the decrypted sum of squares exceeds the guard's limit, in constant time.
bool fired(const SecretKeyData& key, const Guard& guard) {
  math::u64 outside = 0;
  compare_slots(key, guard, [&](math::u64 mask) { outside |= mask; });
  return declassified(outside != 0);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) text += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

}  // namespace

Guard::Part Guard::part() { return std::make_shared<const char>(); }

double Guard::excess() const { return std::cosh(std::acosh(std::sqrt(std::max(1.0, limit + noise))) / power) - 1; }

Guards Guards::of(std::vector<Item> list) {
  Guards guards;
  guards.list_ = std::move(list);
  return guards;
}

Guards Guards::joined(const Guards& a, const Guards& b) {
  if (b.empty() || a.list_ == b.list_) return a;
  if (a.empty()) return b;
  std::vector<Item> list = a.list_;
  for (const Item& more : b.list_) {
    if (std::any_of(list.begin(), list.end(), [&](const Item& g) { return contains(*g, *more); })) continue;
    std::erase_if(list, [&](const Item& g) { return contains(*more, *g); });
    list.push_back(more);
  }
  while (list.size() > kMost && join_two(list)) {
  }
  return of(std::move(list));
}

io::Json described(const Guards& guards) {
  io::Json all = io::Json::array();
  for (const Guards::Item& guard : guards.list()) {
    const CiphertextData& x = *guard->squares;
    io::Json names = io::Json::array();
    for (const std::string& name : guard->operations) names.push_back(name);
    all.push_back(io::Json::object({{"scale", x.scale},
                                    {"width", x.width},
                                    {"limit", guard->limit},
                                    {"noise", guard->noise},
                                    {"power", guard->power},
                                    {"operations", std::move(names)}}));
  }
  return all;
}

Guards guards_from(const io::Json& list, const std::shared_ptr<Context>& context, const rlwe::KeyId& key,
                   const std::function<RnsTensor()>& words) {
  std::vector<Guards::Item> all;
  for (const io::Json& json : list.as_array("guards", kGuardsInFile)) {
    json.require_only({"scale", "width", "limit", "noise", "power", "operations"}, "a guard");
    CiphertextData x;
    x.context = context, x.key = key;
    x.level = 1;
    x.scale = json.double_at("scale"), x.width = json.unsigned_at("width", context->slots());
    Guard guard;
    guard.limit = json.double_at("limit"), guard.noise = json.double_at("noise"), guard.power = json.double_at("power");
    require<DamagedFileError>(x.scale >= 1 && std::log2(x.scale) + 1 <= context->log_modulus(1),
                              "a guard must have a scale between 1 and half the modulus of level 1");
    require<DamagedFileError>(guard.limit > 0 && std::isfinite(guard.limit) && guard.noise >= 0 &&
                                  std::isfinite(guard.noise) && guard.power >= 1 && guard.power <= kLargestPower,
                              "a guard must have a limit above 0, a noise of at least 0 and a power of at least 1");
    for (const io::Json& name : json.array_at("operations", kNames))
      guard.operations.push_back(name.as_string("a name", kText));
    require<DamagedFileError>(!guard.operations.empty(), "a guard must name an operation");
    x.noise = rlwe::Figure(std::nan(""), std::log2(std::max(guard.noise * x.scale, 1.0)));
    x.ranges = Ranges(RangePair{Range::unknown(), Range::of(0, guard.limit, 1, 1)});
    x.tensor = words();
    guard.squares = std::make_shared<const CiphertextData>(finish(std::move(x)).data());
    guard.parts = {Guard::part()};
    all.push_back(std::make_shared<const Guard>(std::move(guard)));
  }
  return Guards::of(std::move(all));
}

std::vector<GuardSummary> guards_of(const Ciphertext& x) {
  std::vector<GuardSummary> all;
  for (const Guards::Item& g : x.data().guards.list()) all.push_back({g->operations, g->excess(), g->squares->bytes()});
  return all;
}

Ciphertext drop_guards(const Ciphertext& x) {
  CiphertextData data = x.data();
  data.guards = {};
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

Ciphertext with_guards(const Ciphertext& x, const Ciphertext& of) {
  CiphertextData data = x.data();
  const CiphertextData& other = of.data();
  require_same(other, data.context, data.key, "the tensor with the guards");
  data.guards = Guards::joined(data.guards, other.guards);
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

Ciphertext skip_guards(const Ciphertext& x) {
  CiphertextData data = x.data();
  data.ranges = data.ranges.guarded();
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

Ciphertext without_trust(const Ciphertext& x) {
  CiphertextData data = x.data();
  data.noise = rlwe::Figure(std::nan(""), data.noise.assumed);
  data.ranges = data.ranges.unvouched();
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

Ciphertext strong_guards(const Ciphertext& x) {
  CiphertextData data = x.data();
  data.ranges = data.ranges.strongly_guarded();
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

std::vector<std::size_t> SecretKey::outside_slots(const Ciphertext& ciphertext) const {
  std::vector<math::u64> outside(data().context->slots());
  for (const Guards::Item& guard : ciphertext.data().guards.list()) {
    std::size_t slot = 0;
    compare_slots(data(), *guard, [&](math::u64 mask) { outside[slot++] |= mask; });
  }
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < outside.size(); ++slot)
    if (declassified(outside[slot]) != 0) slots.push_back(slot);
  return slots;
}

void require_silent(const SecretKeyData& key, const CiphertextData& x) {
  for (const Guards::Item& guard : x.guards.list()) {
    if (!fired(key, *guard)) continue;
    const bool several = guard->operations.size() > 1;
    throw OutOfIntervalError(std::string("an argument of ") + (several ? "one of " : "") + listed(guard->operations) +
                             " is outside its interval, and results that depend on it are wrong. Declare a wider interval "
                             "(domain=), scale the values, or pass unguarded=True to take the numbers as they are");
  }
}

}  // namespace heliograph::ckks
