// Objects of any scheme as files: type, parameters and key id come first (docs/format.md). The other fields depend on the
// kind of object. A scheme defines for each kind:
//   io::Container describe(const Data&, ring::Words);
//   Object read(io::Container&&, const Allowed&, As<Object>);
// A written array is produced just before it is stored; an array that is read is moved out of the container. So neither
// function holds two copies of more than one array.
#pragma once

#include "ring/files.h"
#include "schemes/context.h"

namespace heliograph::schemes {

template <class Object>
struct As {};

template <class C>
io::Container start(const char* kind, const C& context, const std::string& key) {
  io::Container k;
  k.type = "heliograph." + context.scheme() + "." + kind;
  k.header = io::Json::object({{"parameters", to_json(context.spec())}, {"parameter_hash", context.hash()}, {"key", key}});
  return k;
}

/// Throws MismatchError unless a file's parameters have the hash `wanted` (empty: any). The message names both sets if that
/// set is open.
template <class C, class Spec>
void require_wanted(const Spec& spec, const std::string& wanted) {
  const std::string hash = hash_of(spec);
  if (!wanted.empty() && hash != wanted) {
    if (const std::shared_ptr<C> other = open_contexts<C>().find(wanted)) {
      if constexpr (requires { C::require_possible(spec); }) {
        try {
          C::require_possible(spec);  // computing the difference needs a valid set
        } catch (const ParameterError& e) {
          throw DamagedFileError(std::string("the file's parameters are invalid: ") + e.what());
        }
      }
      throw MismatchError("the tensor and these keys have different " + difference(spec, other->spec()) +
                          " (hashes of their parameters: " + hash.substr(0, 16) + " and " + wanted.substr(0, 16) + ")");
    }
  }
  ring::require_parameters(hash, wanted);
}

/// Opens the context of a file's parameters. `wanted`: the required hash; empty: any.
template <class C>
std::shared_ptr<C> context_of(const io::Container& from, const char* kind, const std::string& wanted = {}) {
  const ring::FileType type = ring::parts_of(from.type);
  if (!C::reads(type.scheme) || type.kind != kind) {
    throw FormatError("this file holds an object of kind " + (C::reads(type.scheme) ? type.kind : from.type) + ", not " +
                      kind);
  }
  const auto spec = C::spec_from(from.header.object_at("parameters"));
  ring::check_hash(from, [&](bool named) { return hash_of(spec, named); });
  require_wanted<C>(spec, wanted);
  const std::shared_ptr<C> context = open_saved_context<C>(spec, "the file's parameters");
  require<DamagedFileError>(context->scheme() == type.scheme,
                            "the scheme of the parameters must be that of the file's type");
  return context;
}

}  // namespace heliograph::schemes
