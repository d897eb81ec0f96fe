// Where a peer is: "host:port", "[::1]:7000" or "unix:/path".
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millpond::rpc {

struct Address {
  std::string host;                      // name or number, without brackets; empty: Unix
  uint16_t port = 0;
  std::string path;                      // of the Unix socket

  bool local() const { return host.empty(); }
  std::string text() const;
};

// invalid: says what is wrong with it and how it is written.
Result<Address> parse_address(std::string_view text);

// An address as the kernel takes it.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;

  int family() const { return address.ss_family; }
  bool loopback() const;                 // 127/8, ::1, Unix
  uint16_t port() const;
  std::string text() const;              // "127.0.0.1:7000", "[::1]:7000"
};

Endpoint unix_endpoint(const std::string& path);             // REQUIRES: parse_address accepted it
// Numbers only unless `ask_resolver` (which blocks). unavailable: no such host.
Result<std::vector<Endpoint>> resolve(const Address& address, bool ask_resolver);

}  // namespace millpond::rpc
