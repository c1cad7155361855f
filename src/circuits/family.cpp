#include "circuits/family.h"

namespace heliograph::circuits {

Number Family::input(const Type& type) {
  Number x{{}, type};
  x.parts.resize(parts(type));
  for (Linear& part : x.parts) part = builder_.input();
  return x;
}

void Family::output(const Number& x) {
  for (const Linear& part : x.parts) builder_.output(part);
}

Linear Family::refresh(const Linear& part) {
  const Encoding& e = builder_.encoding();
  if (e.boolean()) return builder_.bootstrap(part, {e.unit()})[0];
  const std::uint64_t boxes = std::uint64_t{1} << (e.message_bits + e.carry_bits);
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < boxes; ++i) values.push_back(i * e.unit());
  return builder_.bootstrap(plus(part, e.unit() / 2), values)[0];
}

Linear Family::clean(const Linear& part) { return Builder::norm(part) <= 1 ? part : refresh(part); }

Number Family::refresh(const Number& x) {
  Number result{{}, x.type};
  for (const Linear& part : x.parts) result.parts.push_back(refresh(part));
  return result;
}

}  // namespace heliograph::circuits
