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

}  // namespace heliograph::circuits
