// Ranks whose devices communicate directly (NCCL); messages between hosts go by sockets.
#pragma once

#include "mesh/transport/sockets.h"

namespace heliograph::mesh {

/// Connects all members' devices; `mine` are this rank's, from member `first` on. Throws DeviceError on every rank.
std::unique_ptr<Transport> make_channel_transport(std::unique_ptr<SocketTransport> sockets,
                                                  const std::vector<std::shared_ptr<device::Device>>& mine,
                                                  std::size_t first, std::size_t members);

}  // namespace heliograph::mesh
