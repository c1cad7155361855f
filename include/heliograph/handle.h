// What the public objects hold: shared data that never changes, or nothing yet.
#pragma once

#include <memory>
#include <utility>

#include "heliograph/errors.h"

namespace heliograph {

/// An object that nothing was assigned to, or that was moved from, is empty: any use of it throws ParameterError.
template <class Data>
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& operator*() const {
    if (!data_) throw ParameterError("an empty object was used: nothing was assigned to it, or it was moved from");
    return *data_;
  }
  const Data* operator->() const { return &**this; }
  /// Whether no other handle holds it.
  bool unique() const { return data_.use_count() == 1; }

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace heliograph
