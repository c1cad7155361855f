// The base of public objects: a handle to shared immutable data.
#pragma once

#include <memory>
#include <utility>

#include "heliograph/errors.h"

namespace heliograph {

/// A default-constructed or moved-from handle is empty; any use of it throws ParameterError.
template <class Data>
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& operator*() const {
    if (!data_)
      throw ParameterError("cannot use an empty object: it was never assigned, or it was moved from; assign it first");
    return *data_;
  }
  const Data* operator->() const { return &**this; }
  /// Returns whether this handle is the only owner of its data.
  bool unique() const { return data_.use_count() == 1; }

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace heliograph
