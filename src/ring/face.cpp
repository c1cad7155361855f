// Public function that inspects files of any scheme (include/heliograph).
#include "heliograph/files.h"

#include "ring/files.h"
#include "ring/key_holder.h"

namespace heliograph {

std::string inspect(const std::string& path) { return ring::inspect(path); }

std::string kind_of(const std::string& path) {
  const std::string type = ring::file_type(path), kind = ring::parts_of(type).kind;
  if (kind.empty()) throw FormatError("this file holds an object of kind " + type + ", which this version does not read");
  return kind;
}

}  // namespace heliograph
