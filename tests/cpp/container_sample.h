// Sample container shared by tests of files; data/container-v1.hg has the same content.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/container.h"

namespace heliograph::io {

using Bytes = std::vector<std::byte>;

inline const std::vector<std::uint64_t> words = {0, 1, 0xffffffffffffffff, 0x0123456789abcdef, 5, 6};
inline const std::vector<std::uint8_t> octets = {1, 2, 3, 4, 5, 6, 7};
inline const std::vector<std::int8_t> weights = {-128, 127, 0};
inline const std::vector<std::uint32_t> halves = {0xffffffff, 7};
inline const std::vector<std::int64_t> scalar = {-42};

/// Returns a container with one array of every dtype, one without elements and one without axes.
inline Container sample() {
  Container c;
  c.type = "test.sample";
  c.header = Json::object({{"n", 4096}, {"key", "00ff"}, {"list", Json::array({1, -2, 2.5, nullptr, true})}});
  c.arrays = {Array::of<std::uint64_t>("words", {2, 3}, words),   Array::of<std::uint8_t>("octets", {7}, octets),
              Array::of<std::int8_t>("weights", {3, 1}, weights), Array::of<std::uint64_t>("nothing", {5, 0}, {}),
              Array::of<std::uint32_t>("halves", {2}, halves),    Array::of<std::int64_t>("scalar", {}, scalar)};
  return c;
}

inline bool same(const Container& a, const Container& b) {
  return a.type == b.type && a.header == b.header &&
         std::equal(a.arrays.begin(), a.arrays.end(), b.arrays.begin(), b.arrays.end(), [](const Array& x, const Array& y) {
           return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape &&
                  std::equal(x.data.begin(), x.data.end(), y.data.begin(), y.data.end());
         });
}

}  // namespace heliograph::io
