// Numbers in error messages.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

namespace heliograph::ckks {

/// Formats a number with six significant digits.
inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}
/// Formats a positive number as a power of two.
inline std::string power_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "2^%.1f", std::log2(value));
  return text;
}
inline std::string interval_text(double low, double high) {
  char text[64];
  std::snprintf(text, sizeof text, "[%.6g, %.6g]", low, high);
  return text;
}

}  // namespace heliograph::ckks
