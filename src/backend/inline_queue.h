// Queue of a synchronous backend: every call completes before it returns, so waiting and ordering do nothing.
#pragma once

#include "device/perform.h"

namespace heliograph::backend {

using namespace device;  // NOLINT: the names of device/call.h

class DoneEvent final : public device::Event {
 public:
  void wait() override {}
};

/// `Ring` and `Lwe` have a member run(Queue&, const K&) for each call K of device/call.h that they implement.
template <class Ring, class Lwe>
class InlineQueue final : public device::Queue {
 public:
  /// `fallback`: executes calls that neither Ring nor Lwe implements; null, or an object that outlives the queue.
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
