// Tensors of wide LWE ciphertexts: [batch..., wire, words] with lwe_words(k * N) 64-bit words. A tensor is a value that may
// share storage with others; operations do not write to their arguments.
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
  /// Allocates uninitialized ciphertexts of `words` words on the session's device. Throws ShapeError if the tensor exceeds
  /// device::kMaxViewBytes, and OutOfMemoryError.
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
/// Returns the words in the order of item and wire. Waits for the device.
std::vector<math::u64> download(const Tensor& a);
/// Returns the words in the key holder (device/device.h), and an empty vector in other processes.
std::vector<math::u64> gather(const Tensor& a);
void upload(const Tensor& to, std::span<const math::u64> from);

}  // namespace heliograph::lwe
