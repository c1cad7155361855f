#include "rlwe/compositions.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "base/errors.h"
#include "base/progress.h"

namespace heliograph::rlwe {

namespace {

using math::u64;
constexpr std::size_t kBits = 64;

/// Computes to |= from, where `from` is rotated left by `step` bits modulo 64 * words.
void add_turned(std::vector<u64>& to, const std::vector<u64>& from, std::size_t step) {
  const std::size_t words = to.size(), whole = step / kBits, bits = step % kBits;
  for (std::size_t i = 0; i < words; ++i) {
    const u64 high = from[(i - whole) & (words - 1)], low = from[(i - whole - 1) & (words - 1)];
    to[i] |= bits == 0 ? high : high << bits | low >> (kBits - bits);
  }
}

/// Maximum number of candidates of `cheapest`, each of which needs a search.
constexpr std::size_t kTried = 8;

}  // namespace

Compositions::Compositions(std::span<const std::int64_t> steps, std::size_t period) : fewest_(period) {
  require<InternalError>(std::has_single_bit(period) && period <= 1 << 16,
                         "the period of rotations must be a power of two of at most 2^16");
  for (const std::int64_t step : steps)
    if (const std::size_t s = reduced(step); s > 0) steps_.push_back(static_cast<std::uint32_t>(s));
  std::sort(steps_.begin(), steps_.end());
  steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
  search();
}

std::size_t Compositions::reduced(std::int64_t step) const {
  return static_cast<std::size_t>(step) & (period() - 1);  // the bits below the period, which is a power of two
}

void Compositions::search() {
  const std::size_t size = period();
  std::vector<std::uint32_t> level = {0};
  for (std::uint32_t switches = 1; !level.empty(); ++switches) {  // ends, because each level reaches a new rotation
    std::vector<std::uint32_t> next;
    const auto reach = [&](std::size_t at) {
      if (at == 0 || fewest_[at] != 0) return;
      fewest_[at] = static_cast<std::uint16_t>(switches);
      next.push_back(static_cast<std::uint32_t>(at));
    };
    if (level.size() * kBits <= size || size < kBits) {
      searched_ += level.size() * steps_.size();
      for (const std::uint32_t at : level)
        for (const std::uint32_t step : steps_) reach((at + step) & (size - 1));
    } else {
      searched_ += size / kBits * steps_.size();
      std::vector<u64> from(size / kBits), to(size / kBits);
      for (const std::uint32_t at : level) from[at / kBits] |= u64{1} << at % kBits;
      for (const std::uint32_t step : steps_) add_turned(to, from, step);
      for (std::size_t i = 0; i < to.size(); ++i)
        for (u64 rest = to[i]; rest != 0; rest &= rest - 1)
          reach(i * kBits + static_cast<std::size_t>(std::countr_zero(rest)));
    }
    level = std::move(next);
  }
}

std::optional<std::size_t> Compositions::switches(std::int64_t step) const {
  const std::size_t at = reduced(step);
  if (at == 0) return 0;
  if (fewest_[at] == 0) return std::nullopt;
  return fewest_[at];
}

std::optional<std::vector<std::int64_t>> Compositions::of(std::int64_t step) const {
  const auto count = switches(step);
  if (!count) return std::nullopt;
  std::vector<std::int64_t> list;
  for (std::size_t at = reduced(step), left = *count; left > 0; --left) {
    const auto last = std::find_if(steps_.begin(), steps_.end(), [&](std::uint32_t s) {
      const std::size_t before = (at - s) & (period() - 1);
      return left == 1 ? before == 0 : before != 0 && fewest_[before] == left - 1;
    });
    list.push_back(*last);
    at = (at - *last) & (period() - 1);
  }
  std::reverse(list.begin(), list.end());
  return list;
}

std::int64_t Compositions::cheapest(std::span<const std::int64_t> wanted) const {
  std::vector<std::int64_t> tried;
  std::size_t divisor = period();  // greatest common divisor of the period and all wanted steps
  for (const std::int64_t step : wanted) divisor = std::gcd(divisor, reduced(step));
  for (const std::int64_t step : wanted)
    if (tried.size() < kTried) tried.push_back(static_cast<std::int64_t>(reduced(step)));
  tried.push_back(static_cast<std::int64_t>(divisor));
  std::int64_t best = tried.back();
  std::optional<std::size_t> least;
  for (const std::int64_t step : tried) {
    std::vector<std::int64_t> all(steps_.begin(), steps_.end());
    all.push_back(step);
    const Compositions with(all, period());
    std::size_t total = 0;
    bool every = true;
    for (const std::int64_t w : wanted) {
      const auto count = with.switches(w);
      every = every && count;
      total += count.value_or(0);
    }
    if (every && (!least || total < *least)) least = total, best = step;
  }
  return best;
}

Compositions::Reach Compositions::reach() const {
  std::size_t divisor = period();
  for (const std::uint32_t step : steps_) divisor = std::gcd(divisor, std::size_t{step});
  return {divisor, *std::max_element(fewest_.begin(), fewest_.end())};
}

RotationPlan::RotationPlan(const std::vector<std::vector<std::int64_t>>& compositions, std::size_t period) {
  std::map<std::size_t, std::size_t> tensor_of = {{0, 0}};  // number of the tensor that is rotated by each sum of steps
  std::map<std::size_t, std::size_t> group_of;              // number of the group for each tensor that is rotated
  for (const std::vector<std::int64_t>& composition : compositions) {
    std::size_t sum = 0, from = 0;
    for (const std::int64_t step : composition) {
      sum = (sum + static_cast<std::size_t>(step)) & (period - 1);
      const auto [found, is_new] = tensor_of.try_emplace(sum, tensors);
      if (is_new) {
        const auto [group, first] = group_of.try_emplace(from, groups.size());
        if (first) groups.push_back({from, {}, {}});
        groups[group->second].steps.push_back(step), groups[group->second].to.push_back(tensors++);
      }
      from = found->second;
    }
    results.push_back(from);
    switches = std::max(switches, composition.size());
  }
  // A tensor's number is greater than the number of the tensor that it is rotated from.
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.from < b.from; });
}

void rotate(const RotationPlan& plan, const ring::RnsTensor& x, const std::vector<ring::RnsTensor>& out,
            const RotateBy& rotate_by) {
  std::vector<ring::RnsTensor> tensors(plan.tensors);
  std::vector<bool> kept(plan.tensors);
  tensors[0] = x, kept[0] = true;
  std::vector<std::size_t> again;  // results that equal an earlier result or the operand
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t t = plan.results[i];
    if (kept[t])
      again.push_back(i);
    else
      tensors[t] = out[i], kept[t] = true;
  }
  ProgressSteps steps(plan.groups.empty() ? 1 : plan.tensors - 1);
  for (const RotationPlan::Group& group : plan.groups) {
    std::vector<ring::RnsTensor> to;
    for (const std::size_t t : group.to) {
      if (!kept[t]) tensors[t] = ring::Stack(x, 1, false).whole();
      to.push_back(tensors[t]);
    }
    steps.part(group.to.size(), [&] { rotate_by(tensors[group.from], group.steps, to); });
    if (!kept[group.from]) tensors[group.from] = {};
  }
  for (const std::size_t i : again) x.engine()->enqueue(device::Copy{tensors[plan.results[i]].view(), out[i].view()});
  if (plan.groups.empty()) steps.add();
}

}  // namespace heliograph::rlwe
