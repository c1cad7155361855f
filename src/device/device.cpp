#include "device/device.h"

#include <algorithm>
#include <cstdio>

#include "device/expand.h"
#include "device/kernels.h"

namespace heliograph::device {

namespace {

std::string grouped(u64 number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

Cycles& Cycles::add(const Cycles& o, u64 times) {
  for (u64 Cycles::*const field :
       {&Cycles::lists, &Cycles::descriptors, &Cycles::cycles, &Cycles::predicted, &Cycles::waited, &Cycles::bytes_read,
        &Cycles::bytes_written, &Cycles::stalled, &Cycles::sampled, &Cycles::moved})
    this->*field += times * (o.*field);
  for (const auto& [unit, count] : o.busy) busy[unit] += times * count;
  clock = std::max(clock, o.clock);
  return *this;
}

std::string readable(const Cycles& c) {
  char time[64];
  std::snprintf(time, sizeof time, "%.3g ms at an assumed %g MHz", 1e3 * static_cast<double>(c.cycles) / c.clock,
                c.clock / 1e6);
  std::string text = grouped(c.cycles) + " cycles, " + time + " (" + grouped(c.predicted) + " by the model), " +
                     grouped(c.descriptors) + " instructions, " + readable_bytes(c.bytes_read) + " read, " +
                     readable_bytes(c.bytes_written) + " written";
  const char* mark = "; busy: ";
  for (const auto& [unit, count] : c.busy) {
    std::snprintf(time, sizeof time, "%s %.0f%%", unit.c_str(),
                  c.cycles > 0 ? 100 * static_cast<double>(count) / static_cast<double>(c.cycles) : 0.0);
    text += mark + std::string(time);
    mark = ", ";
  }
  if (c.stalled > 0) text += "; " + grouped(c.stalled) + " handshakes delayed";
  if (c.sampled > 0 || c.moved > 0)
    text += "; by software: " + grouped(c.sampled) + " limbs of random numbers, " + grouped(c.moved) + " words copied";
  return text;
}

void Queue::enqueue(const Call& call) {
  check(call);
  if (!idle(call)) perform(call);
}

void Queue::expand(const Call& call) {
  const std::vector<Call> parts = device::expand(call);
  for (const Call& part : parts) perform(part);
  if (!parts.empty() || std::holds_alternative<Gather>(call)) return;  // a Gather without pieces does nothing
  Fallback* const other = fallback();
  if (other == nullptr) throw InternalError(std::string("the queue's device has no kernel for ") + device::name(call));
  other->perform(call);
}

Fallback::Fallback(std::unique_ptr<Device> device) : device_(std::move(device)), queue_(device_->make_queue()) {}
Fallback::~Fallback() = default;

void Fallback::perform(const Call& call) {
  {
    const std::lock_guard lock(mutex_);
    ++calls_[device::name(call)];
  }
  std::visit(
      [&](const auto& c) {
        each_constant(c, [&]<class T>(const std::shared_ptr<const T>& constant) {
          if constexpr (std::is_same_v<T, LayerConstant>)
            device_->tfhe().prepare(*constant);
          else if constexpr (requires { device_->kernels().prepare(*constant); })
            if (constant) device_->kernels().prepare(*constant);
        });
      },
      call);
  queue_->perform(call);
}

std::string Fallback::report() const {
  const std::lock_guard lock(mutex_);
  u64 all = 0;
  std::string list;
  for (const auto& [kernel, count] : calls_) {
    all += count;
    list += (list.empty() ? "" : ", ") + std::to_string(count) + ' ' + kernel;
  }
  return all == 0 ? "" : std::to_string(all) + " calls ran on the fallback device " + device_->name() + ": " + list;
}

Buffer Device::allocate(const View& shape, const PrimeList&, Queue& queue) { return allocate(shape.bytes(), queue); }

TfheKernels& Device::tfhe() {
  if (TfheKernels* const kernels = capabilities().tfhe) return *kernels;
  throw DeviceError(name() + " has no TFHE kernels; choose another device");
}

Device* Device::key_holder() {
  Processes* const several = processes();
  return several ? several->key_holder() : this;
}

std::vector<std::byte> Device::broadcast(const std::function<std::vector<std::byte>()>& make) {
  Processes* const several = processes();
  return several ? several->broadcast(make) : make();
}

void Device::scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to) {
  if (Processes* const several = processes()) return several->scatter(queue, from, bytes, to);
  require<InternalError>(from.size() == bytes, "the key holder must scatter all bytes");
  upload(queue, from, to);
}

void Device::gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) {
  if (Processes* const several = processes()) return several->gather(queue, from, bytes, to);
  require<InternalError>(to.size() == bytes, "the key holder must gather all bytes");
  download(queue, from, to);
}

void Device::confirm(const std::string& what, const std::string& value) {
  if (Processes* const several = processes()) several->confirm(what, value);
}

bool Device::reaches(const Device& other) {
  if (const Peers* const peers = capabilities().peers) return peers->reaches(other);
  return this == &other || (in_host_memory() && other.in_host_memory());
}

std::shared_ptr<Meeting> Device::make_meeting(std::span<Device* const> members, std::span<Queue* const> queues) {
  Peers* const peers = capabilities().peers;
  return peers ? peers->make_meeting(members, queues) : nullptr;
}

Traffic Device::traffic() {
  const TransferCounter* const counter = capabilities().transfers;
  return counter ? counter->traffic() : Traffic{};
}

double Device::product_ceiling() {
  Measurement* const measurement = capabilities().measurement;
  return measurement ? measurement->product_ceiling() : 0;
}

double Device::sum_ceiling() {
  Measurement* const measurement = capabilities().measurement;
  return measurement ? measurement->sum_ceiling() : 0;
}

const Rates& Device::rates() {
  std::call_once(rates_known_, [&] {
    Measurement* const measurement = capabilities().measurement;
    rates_ = measurement ? measurement->measure_rates() : measured_rates(*this, 1);
  });
  return rates_;
}

std::vector<std::string> Device::report() {
  const MemoryState m = memory();
  return {name() + ": " + description() + ", " + readable_bytes(m.available) + " of " + readable_bytes(m.total) + " free"};
}

}  // namespace heliograph::device
