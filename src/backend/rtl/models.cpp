#include "backend/rtl/models.h"

#include <Vcard2.h>
#include <Vcard8.h>

#include "backend/rtl/verilated_card.h"

namespace heliograph::backend::rtl {

using heliograph::rtl::Card;
using heliograph::rtl::VerilatedCard;

const std::vector<int>& compiled_butterflies() {
  static const std::vector<int> all = {8, 2};
  return all;
}

std::unique_ptr<Card> make_card(int butterflies, std::span<std::byte> memory, unsigned seed, int stalls) {
  if (butterflies == 2) return std::make_unique<VerilatedCard<Vcard2>>(memory, seed, stalls);
  return std::make_unique<VerilatedCard<Vcard8>>(memory, seed, stalls);
}

}  // namespace heliograph::backend::rtl
