#include "sim/network.h"

#include <fmt/format.h>

#include <charconv>

#include "base/check.h"
#include "sim/connection.h"
#include "sim/runtime.h"

namespace millpond::sim {

std::string host_address(HostId host) { return fmt::format("10.0.{}.{}", host.value / 256, host.value % 256); }

HostId host_of(const std::string& address) {
  unsigned high = 0, low = 0;
  if (std::sscanf(address.c_str(), "10.0.%u.%u", &high, &low) != 2) return HostId(0);
  return HostId(high * 256 + low);
}

void Network::isolate(HostId host) { isolated_.insert(host); }

void Network::reconnect(HostId host) {
  isolated_.erase(host);
  flush([&](HostId a, HostId b) { return a == host || b == host; });
}

bool Network::is_cut(HostId source, HostId target) const {
  if (source == target) return false;
  return cut_.contains({source, target}) || isolated_.contains(source) || isolated_.contains(target);
}

void Network::heal(HostId source, HostId target) {
  cut_.erase({source, target});
  flush([&](HostId a, HostId b) { return a == source && b == target; });
}

void Network::heal() {
  cut_.clear();
  isolated_.clear();
  flush([](HostId, HostId) { return true; });
}

void Network::flush(const std::function<bool(HostId, HostId)>& healed) {
  auto connections = connections_;   // what goes on may end some
  for (auto& [id, connection] : connections) {
    auto client = world_.host(connection->process(Connection::client)), server = world_.host(connection->process(Connection::server));
    if (healed(client, server) && !is_cut(client, server)) connection->healed(Connection::client);
    if (healed(server, client) && !is_cut(server, client)) connection->healed(Connection::server);
  }
}

void Network::break_connections(HostId a, HostId b) {
  for (auto& [id, connection] : connections_) {
    auto client = world_.host(connection->process(Connection::client)), server = world_.host(connection->process(Connection::server));
    if ((client == a && server == b) || (client == b && server == a)) connection->break_both(Status(Code::unavailable, "connection lost"));
  }
}

void Network::process_ended(ProcessId process, bool silent) {
  close_listeners(process);
  auto connections = connections_;
  for (auto& [id, connection] : connections)
    for (auto side : {Connection::client, Connection::server})
      if (connection->process(side) == process) connection->process_gone(side, silent);
}

Result<std::string> Network::listen(SimRuntime& runtime, rpc::ListenOptions options, rpc::Service* service) {
  if (options.address.starts_with("unix:")) return error(Code::invalid, "{}: the simulated network has no Unix sockets", options.address);
  auto colon = options.address.rfind(':');
  unsigned port = 0;
  if (colon == std::string::npos || std::from_chars(options.address.data() + colon + 1, options.address.data() + options.address.size(), port).ec != std::errc())
    return error(Code::invalid, "{}: not host:port", options.address);
  if (port == 0) port = ++port_last_;
  auto address = fmt::format("{}:{}", host_address(world_.host(runtime.process())), port);
  if (listeners_.contains(address)) return error(Code::invalid, "{}: in use", address);
  listeners_[address] = {&runtime, service};
  return address;
}

void Network::close_listeners(ProcessId process) {
  std::erase_if(listeners_, [&](auto& entry) { return entry.second.runtime->process() == process; });
}

const Network::Listener* Network::listener(const std::string& address) const {
  auto found = listeners_.find(address);
  return found == listeners_.end() ? nullptr : &found->second;
}

std::shared_ptr<Connection> Network::make_connection(ProcessId client, ProcessId server) {
  auto id = ++connection_last_;
  return connections_[id] = std::make_shared<Connection>(*this, id, client, server);
}

void Network::forget(const Connection& connection) { connections_.erase(connection.id()); }

Duration Network::delay() {
  return options_.delay_min + Duration(random_.below(uint64_t((options_.delay_max - options_.delay_min).count()) + 1));
}

void Network::passing(const Passing& message) const {
  world_.note(uint64_t(message.kind) << 32 ^ message.body.size() ^ (message.arrived ? 1ull << 63 : 0));
  for (auto& watch : watches_) watch(message);
}

}  // namespace millpond::sim
