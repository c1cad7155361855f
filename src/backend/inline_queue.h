// A queue of a backend that finishes every call before it returns: nothing to wait for, nothing to order.
#pragma once

#include "device/perform.h"

namespace heliograph::backend {

using namespace device;  // NOLINT: backends speak of calls by the names of the list

class DoneEvent final : public device::Event {
 public:
  void wait() override {}
};

/// `Ring` and `Lwe` have a `run(Queue&, const K&)` for each kernel K that they perform.
template <class Ring, class Lwe>
class InlineQueue final : public device::Queue {
 public:
  /// `fallback`, where there is one, outlives the queue.
  InlineQueue(Ring& ring, Lwe& lwe, device::Fallback* fallback = nullptr) : ring_(ring), lwe_(lwe), fallback_(fallback) {}
  bool supports(const device::Call& call) const override { return device::performs<Ring, Lwe>(call); }
  std::shared_ptr<device::Event> record() override { return std::make_shared<DoneEvent>(); }
  void after(const device::Event&) override {}
  void uses(const device::Buffer&) override {}
  void wait() override {}

 protected:
  void perform(const device::Call& call) override { device::perform(*this, call, ring_, lwe_); }
  device::Fallback* fallback() override { return fallback_; }

 private:
  Ring& ring_;
  Lwe& lwe_;
  device::Fallback* fallback_;
};

}  // namespace heliograph::backend
