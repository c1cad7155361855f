#include "device/call.h"

#include "base/checked.h"
#include "device/address.h"

namespace heliograph::device {

View Workspace::take(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n) {
  const std::size_t need = bytes(word, items, components, limbs, n);
  require<InternalError>(need <= left_, "the workspace of a composite kernel is too small");
  View v = View::dense(next_, word, {items}, components, limbs, n);
  next_ = displaced(next_, need);
  left_ -= need;
  return v;
}

std::size_t Workspace::bytes(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n) {
  return checked_add(checked_product(items, components, limbs, n, math::word_bytes(word)), 63) / 64 * 64;
}

Workspace Workspace::split(std::size_t bytes) {
  require<InternalError>(bytes <= left_, "the workspace of a composite kernel is too small");
  Workspace part(next_, bytes);
  next_ = displaced(next_, bytes);
  left_ -= bytes;
  return part;
}

namespace {

template <std::size_t... i>
std::vector<const char*> names(std::index_sequence<i...>) {
  return {std::variant_alternative_t<i, Call>::name...};
}

}  // namespace

const char* name(const Call& call) {
  return std::visit([](const auto& c) { return c.name; }, call);
}

std::vector<const char*> kernel_names() { return names(std::make_index_sequence<std::variant_size_v<Call>>{}); }

}  // namespace heliograph::device
