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
  if (c.stalled > 0) text += "; " + grouped(c.stalled) + " handshakes put off";
  if (c.sampled > 0 || c.moved > 0)
    text += "; by software: " + grouped(c.sampled) + " limbs of random numbers, " + grouped(c.moved) + " words moved";
  return text;
}

void Queue::enqueue(const Call& call) {
  check(call);
  if (!idle(call)) perform(call);
}

void Queue::expand(const Call& call) {
  const std::vector<Call> parts = device::expand(call);
  for (const Call& part : parts) perform(part);
  if (!parts.empty() || std::holds_alternative<Gather>(call)) return;  // which may have no pieces
  Fallback* const other = fallback();
  if (other == nullptr) throw InternalError(std::string("no queue of this kind performs ") + device::name(call));
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
  return all == 0 ? "" : std::to_string(all) + " calls were left to " + device_->name() + ": " + list;
}

Buffer Device::allocate(const View& shape, const PrimeList&, Queue& queue) { return allocate(shape.bytes(), queue); }

std::unique_ptr<Channel> Device::connect(std::span<const std::byte>, std::size_t, std::size_t, const Patience&) {
  throw DeviceError("devices of this kind have no channels between processes");
}

TfheKernels& Device::tfhe() { throw DeviceError(name() + " computes no TFHE"); }

void Device::scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to) {
  require<InternalError>(from.size() == bytes, "the key holder scatters all bytes");
  upload(queue, from, to);
}

void Device::gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) {
  require<InternalError>(to.size() == bytes, "the key holder gathers all bytes");
  download(queue, from, to);
}

std::shared_ptr<Meeting> Device::make_meeting(std::span<Device* const>, std::span<Queue* const>) { return nullptr; }

std::vector<std::string> Device::report() {
  const MemoryState m = memory();
  return {name() + ": " + description() + ", " + readable_bytes(m.available) + " of " + readable_bytes(m.total) + " free"};
}

}  // namespace heliograph::device
