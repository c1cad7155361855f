// Inspection of files of any scheme.
#pragma once

#include <string>

namespace heliograph {

/// Describes a file as JSON, from its header alone. The arrays are neither read nor verified.
std::string inspect(const std::string& path);
/// Returns the kind of the object in a file: "ciphertext", "secret-key", "public-key", "evaluation-keys". Throws FormatError
/// for other kinds.
std::string kind_of(const std::string& path);

}  // namespace heliograph
