// Tensors of wide LWE ciphertexts: [batch..., wire, words], 64-bit words, lwe_words(k * N) of them. Tensors are values that
// share storage; nothing here writes to an argument.
#pragma once

#include <memory>

#include "device/kernels.h"
#include "device/session.h"
#include "device/tensor.h"

namespace heliograph::lwe {

using device::Session;
using device::Shape;
using device::View;

class Tensor : public device::TensorOf<Tensor> {
 public:
  Tensor() = default;
  /// Uninitialised storage on the session's device, for ciphertexts of `words` words. Throws ShapeError as View::dense,
  /// OutOfMemoryError.
  Tensor(std::shared_ptr<Session> session, const Shape& shape, std::size_t wires, std::size_t words);

  bool empty() const { return session_ == nullptr; }
  const std::shared_ptr<Session>& session() const { return session_; }
  std::size_t wires() const { return view_.components; }
  bool shares_storage(const Tensor& other) const { return view_.memory && view_.memory == other.view_.memory; }

 private:
  std::shared_ptr<Session> session_;
};

Tensor copy(const Tensor& a);
Tensor concatenate(const std::vector<Tensor>& parts, std::size_t axis);
/// The words, item by item, wire by wire. Waits.
std::vector<math::u64> download(const Tensor& a);
/// The same in the key holder (device/device.h) alone; empty elsewhere.
std::vector<math::u64> gather(const Tensor& a);
void upload(const Tensor& to, std::span<const math::u64> from);

}  // namespace heliograph::lwe
