// Word sizes of residues: 64 or 32 bits. Texts of parameter sets call these word sizes "w64" and "w32".
#pragma once

#include <string>

#include "heliograph/errors.h"

namespace heliograph::schemes {

/// Throws ParameterError unless a word size is 64 or 32.
inline void require_word_size(int word_size) {
  if (word_size != 64 && word_size != 32)
    throw ParameterError("word_size must be 64 or 32, not " + std::to_string(word_size));
}

inline std::string word_text(int word_size) { return std::string(1, 'w').append(std::to_string(word_size)); }

/// Returns the word size of a text "w64" or "w32", 0 for others.
inline int word_size_of(const std::string& text) { return text == "w64" ? 64 : text == "w32" ? 32 : 0; }

/// Returns the word size of a named set: NAME has 64 bits, NAME/w32 has 32. Throws ParameterError for other endings.
inline int word_size_of_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return 64;
  const int word_size = word_size_of(name.substr(slash + 1));
  if (word_size == 0) throw ParameterError("unknown set \"" + name + "\": its ending must be /w32 or none");
  return word_size;
}

}  // namespace heliograph::schemes
