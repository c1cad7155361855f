// Tensors of wide LWE ciphertexts: [batch..., wire, words], 64-bit words, lwe_words(k * N) of them. Tensors are values that
// share storage; nothing here writes to an argument.
#pragma once

#include <memory>

#include "device/kernels.h"
#include "device/session.h"
#include "device/shape.h"

namespace heliograph::lwe {

using device::Session;
using device::Shape;
using device::View;

class Tensor {
 public:
  Tensor() = default;
  /// Uninitialised storage on the session's device, for ciphertexts of `words` words. Throws ShapeError as View::dense,
  /// OutOfMemoryError.
  Tensor(std::shared_ptr<Session> session, const Shape& shape, std::size_t wires, std::size_t words);

  bool empty() const { return session_ == nullptr; }
  const std::shared_ptr<Session>& session() const { return session_; }
  Shape shape() const { return device::shape_of(view_); }
  std::size_t items() const { return view_.items(); }
  std::size_t wires() const { return view_.components; }
  const View& view() const { return view_; }
  /// Bytes of the words it shows (a broadcast or slice may share storage).
  std::size_t bytes() const { return view_.bytes(); }
  bool dense() const { return device::is_dense(view_); }
  bool shares_storage(const Tensor& other) const { return view_.memory && view_.memory == other.view_.memory; }

  // Views: no words are moved.
  Tensor with_wires(std::size_t first, std::size_t count) const;
  Tensor broadcast_to(const Shape& shape) const;
  Tensor transpose(const std::vector<std::size_t>& order) const;
  /// start, step and count along one axis
  Tensor slice(std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) const;
  Tensor drop_axis(std::size_t axis, std::size_t index) const;
  /// A view where the strides allow it, else a copy.
  Tensor reshape(const Shape& shape) const;
  Tensor contiguous() const;
  /// What it says of itself, of other words: those of a view of its shape.
  Tensor over(const View& view) const { return with_view(view); }

 private:
  Tensor with_view(const View& view) const;

  std::shared_ptr<Session> session_;
  View view_;
};

Tensor copy(const Tensor& a);
Tensor concatenate(const std::vector<Tensor>& parts, std::size_t axis);
/// The words, item by item, wire by wire. Waits.
std::vector<math::u64> download(const Tensor& a);
/// The same in the key holder (device/device.h) alone; empty elsewhere.
std::vector<math::u64> gather(const Tensor& a);
void upload(const Tensor& to, std::span<const math::u64> from);

}  // namespace heliograph::lwe
