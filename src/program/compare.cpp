#include "program/compare.h"

#include <algorithm>
#include <map>

#include "device/shape.h"

namespace heliograph::program {

namespace {

constexpr u32 kNone = ~u32{0};

/// Returns whether two views have equal shapes and strides. An axis with one item may have any stride.
bool same_form(const View& a, const View& b) {
  const auto axis = [](auto count, auto stride, auto other_count, auto other_stride) {
    return count == other_count && (count <= 1 || stride == other_stride);
  };
  bool same = a.word == b.word && a.n == b.n && a.axes == b.axes &&
              axis(a.components, a.component_stride, b.components, b.component_stride) &&
              axis(a.limbs, a.limb_stride, b.limbs, b.limb_stride);
  for (int i = 0; i < a.axes && same; ++i) same = axis(a.shape[i], a.stride[i], b.shape[i], b.stride[i]);
  return same;
}

// Compares all fields, except views, of two calls of one kernel. Lists must have equal lengths, and prepared constants
// must be the same objects.

bool same_field(const View&, const View&, std::size_t) { return true; }
template <class T>
bool same_field(const std::vector<T>& a, const std::vector<T>& b, std::size_t) {
  return a.size() == b.size();
}
template <class T>
bool same_field(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b, std::size_t) {
  return a == b;
}
template <class T>
bool same_field(const std::vector<std::shared_ptr<T>>& a, const std::vector<std::shared_ptr<T>>& b, std::size_t) {
  return a == b;
}
bool same_field(const PrimeList& a, const PrimeList& b, std::size_t) { return a == b; }
bool same_field(const device::Common<PrimeList>& a, const device::Common<PrimeList>& b, std::size_t) { return *a == *b; }
bool same_field(const device::Constants& a, const device::Constants& b, std::size_t limbs) {
  return std::equal((*a).begin(), (*a).begin() + limbs, (*b).begin());
}
bool same_field(const device::TermConstants& a, const device::TermConstants& b, std::size_t limbs) {
  return std::equal((*a).begin(), (*a).end(), (*b).begin(), (*b).end(), [&](const auto& one, const auto& other) {
    return std::equal(one.begin(), one.begin() + limbs, other.begin());
  });
}
bool same_field(math::Domain a, math::Domain b, std::size_t) { return a == b; }
bool same_field(const Secret<device::Draw>&, const Secret<device::Draw>&, std::size_t) { return false; }
template <class T>
bool same_field(const std::optional<T>& a, const std::optional<T>& b, std::size_t limbs) {
  return a.has_value() == b.has_value() && (!a || same_field(*a, *b, limbs));
}

template <class C>
bool same_fields(const C& a, const C& b) {
  std::size_t limbs = 0;
  if constexpr (requires { a.primes; }) limbs = a.primes.size();
  const auto all = [&]<std::size_t... i>(const auto& x, const auto& y, std::index_sequence<i...>) {
    return (same_field(std::get<i>(x), std::get<i>(y), limbs) && ...);
  };
  const auto fields = C::fields(a);
  return all(fields, C::fields(b), std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
}

class Comparison {
 public:
  Comparison(const Program::Parts& a, const Program::Parts& b) : a_(a), b_(b), mate_(a.places.size(), kNone) {
    note(a_, a_makings_), note(b_, b_makings_);
    taken_.assign(b.places.size(), kNone);
  }

  bool run() {
    if (a_.steps.size() != b_.steps.size() || a_.results.size() != b_.results.size()) return false;
    for (std::size_t i = 0; i < a_.steps.size(); ++i) {
      if (!same(a_.steps[i], b_.steps[i])) return false;
    }
    for (std::size_t i = 0; i < a_.results.size(); ++i) {
      if (!same(a_.results[i], b_.results[i])) return false;
    }
    // The matching constants must have been made in the same order in both recordings.
    std::size_t last = 0;
    for (const auto& [i, j] : made_alike_) {
      if (j < last) return false;
      last = j;
    }
    return true;
  }

 private:
  using Makings = std::vector<std::vector<std::size_t>>;  // for each place, the indices of the steps and host writes that
                                                          // write it

  static void note(const Program::Parts& parts, Makings& of) {
    of.resize(parts.places.size());
    for (std::size_t i = 0; i < parts.makings.size(); ++i) {
      parts.makings[i].each_written([&](u32 p) {
        if (of[p].empty() || of[p].back() != i) of[p].push_back(i);
      });
    }
  }

  bool same(const Shown& x, const Shown& y) {
    return x.view.data == y.view.data && same_form(x.view, y.view) && same(x.place, y.place);
  }

  bool same(const Step& x, const Step& y) {
    if (x.session != y.session || x.source != y.source || x.places.size() != y.places.size() ||
        x.call.index() != y.call.index())
      return false;
    if (!std::visit([&]<class C>(const C& c) { return same_fields(c, std::get<C>(y.call)); }, x.call)) return false;
    std::vector<const View*> views;
    device::each_view(y.call, [&](const View& v, device::Access) { views.push_back(&v); });
    std::size_t k = 0;
    bool alike = true;
    device::each_view(x.call, [&](const View& v, device::Access) {
      alike = alike && v.data == views[k]->data && same_form(v, *views[k]);
      ++k;
    });
    return alike && std::equal(x.places.begin(), x.places.end(), y.places.begin(), [&](u32 p, u32 q) { return same(p, q); });
  }

  bool same(u32 p, u32 q) {
    if (mate_[p] != kNone || taken_[q] != kNone) return mate_[p] == q;
    mate_[p] = q, taken_[q] = p;
    const Place &x = a_.places[p], &y = b_.places[q];
    if (x.kind != y.kind) return false;
    switch (x.kind) {
      case Place::Kind::input:
        return x.number == y.number && x.alone == y.alone && same_form(x.shape, y.shape);
      case Place::Kind::key:
        return x.number == y.number && x.which == y.which;
      case Place::Kind::made:
        return same_form(x.shape, y.shape) && x.primes == y.primes && x.secrecy == y.secrecy;
      case Place::Kind::constant:
        break;
    }
    // Two constants are equal if they use the same memory. The owners of the memory are compared too, because later memory
    // may have the same address.
    if (!x.origin.owner_before(y.origin) && !y.origin.owner_before(x.origin)) return true;
    if (a_makings_[p].empty() || a_makings_[p].size() != b_makings_[q].size() || !same_form(x.shape, y.shape)) return false;
    for (std::size_t k = 0; k < a_makings_[p].size(); ++k) {
      if (!same_making(a_makings_[p][k], b_makings_[q][k])) return false;
    }
    return true;
  }

  bool same_making(std::size_t i, std::size_t j) {
    const auto [known, fresh] = made_alike_.try_emplace(i, j);
    if (!fresh) return known->second == j;
    const Making &x = a_.makings[i], &y = b_.makings[j];
    if (x.step && y.step) return same(*x.step, *y.step);
    return x.written && y.written && x.digest && x.digest == y.digest && same(*x.written, *y.written);
  }

  const Program::Parts &a_, &b_;
  std::vector<u32> mate_, taken_;  // for each place, the matching place of the other recording
  Makings a_makings_, b_makings_;
  std::map<std::size_t, std::size_t> made_alike_;
};

}  // namespace

bool same_calls(const Program::Parts& a, const Program::Parts& b) { return Comparison(a, b).run(); }

}  // namespace heliograph::program
