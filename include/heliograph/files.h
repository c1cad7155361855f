// Files of any scheme, before they are read.
#pragma once

#include <string>

namespace heliograph {

/// What a file is, without trusting its arrays: a JSON text of its header.
std::string inspect(const std::string& path);
/// The kind of object in a file: "ciphertext", "secret-key", "public-key", "evaluation-keys". Throws FormatError for others.
std::string kind_of(const std::string& path);

}  // namespace heliograph
