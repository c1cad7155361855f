// Transport between ranks whose devices communicate directly (NCCL). Messages between hosts use sockets.
#pragma once

#include "mesh/transport/sockets.h"

namespace heliograph::mesh {

/// Connects the devices of all members. `mine`: the devices of this rank, from member `first` on. Throws DeviceError on
/// every rank.
std::unique_ptr<Transport> make_channel_transport(std::unique_ptr<SocketTransport> sockets,
                                                  const std::vector<std::shared_ptr<device::Device>>& mine,
                                                  std::size_t first, std::size_t members);

}  // namespace heliograph::mesh
