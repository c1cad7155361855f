#include "device/observer.h"

namespace heliograph::device {

namespace {

thread_local const Observing* last_made = nullptr;

}  // namespace

const Observing* Observing::last() { return last_made; }

Observing::Observing(Observer* observer) : observer_(observer), former_(last_made) { last_made = this; }
Observing::~Observing() { last_made = former_; }

bool observed() { return last_made != nullptr && last_made->observer_ != nullptr; }

}  // namespace heliograph::device
