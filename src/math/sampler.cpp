#include "math/sampler.h"

#include <bit>
#include <cstring>

#include "base/random.h"

namespace heliograph::math {

namespace {

void quarter_round(u32& a, u32& b, u32& c, u32& d) {
  a += b, d = std::rotl(d ^ a, 16);
  c += d, b = std::rotl(b ^ c, 12);
  a += b, d = std::rotl(d ^ a, 8);
  c += d, b = std::rotl(b ^ c, 7);
}

}  // namespace

std::array<u32, 16> chacha20_block(const Key256& key, u32 counter, const std::array<u32, 3>& nonce) {
  std::array<u32, 16> start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  std::memcpy(&start[4], key.data(), 32);
  start[12] = counter;
  std::copy(nonce.begin(), nonce.end(), &start[13]);
  std::array<u32, 16> s = start;
  for (int i = 0; i < 10; ++i) {
    for (int k = 0; k < 4; ++k) quarter_round(s[k], s[4 + k], s[8 + k], s[12 + k]);
    for (int k = 0; k < 4; ++k) quarter_round(s[k], s[4 + (k + 1) % 4], s[8 + (k + 2) % 4], s[12 + (k + 3) % 4]);
  }
  for (int i = 0; i < 16; ++i) s[i] += start[i];
  return s;
}

Key256 system_entropy() {
  Key256 key;
  fill_random(key);
  return key;
}

}  // namespace heliograph::math
