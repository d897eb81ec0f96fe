#include "rpc/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>

namespace millpond::rpc {
namespace {
constexpr std::string_view kForms = "write host:port, [::1]:7000 or unix:/path";
constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::string_view kUnix = "unix:";
}  // namespace

std::string Address::text() const {
  if (local()) return fmt::format("unix:{}", path);
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  Address address;
  if (text.starts_with(kUnix)) {
    address.path = text.substr(kUnix.size());
    if (address.path.empty() || address.path[0] != '/')
      return error(Code::invalid, "address \"{}\": a Unix socket wants an absolute path, unix:/run/millpond/node.sock", text);
    if (address.path.size() > kPathBytesMax)
      return error(Code::invalid, "address \"{}\": the path has {} bytes, the kernel takes {}", text, address.path.size(), kPathBytesMax);
    if (address.path.find('\0') != address.path.npos) return error(Code::invalid, "address: a zero byte in the path");
    return address;
  }
  size_t colon = text.rfind(':');
  if (colon == text.npos) return error(Code::invalid, "address \"{}\" has no port: {}", text, kForms);
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return error(Code::invalid, "address \"{}\": no ] before the port: {}", text, kForms);
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    return error(Code::invalid, "address \"{}\": an IPv6 address stands in brackets: {}", text, kForms);
  }
  if (host.empty()) return error(Code::invalid, "address \"{}\" has no host: write 127.0.0.1:{}, or 0.0.0.0:{} for every interface", text, port, port);
  if (host.find('\0') != host.npos || host.size() > 255) return error(Code::invalid, "address: a host of {} bytes is none", host.size());
  auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || failure != std::errc() || end != port.data() + port.size())
    return error(Code::invalid, "address \"{}\": \"{}\" is not a port (0 … 65535)", text, port);
  address.host = host;
  return address;
}

bool Endpoint::loopback() const {
  if (family() == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return family() == AF_UNIX;
}

uint16_t Endpoint::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

std::string Endpoint::text() const {
  char host[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, host, sizeof host);
    return fmt::format("{}:{}", host, port());
  }
  if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, host, sizeof host);
    return fmt::format("[{}]:{}", host, port());
  }
  if (size <= offsetof(sockaddr_un, sun_path)) return "unix:";
  return fmt::format("unix:{}", reinterpret_cast<const sockaddr_un&>(address).sun_path);
}

Endpoint unix_endpoint(const std::string& path) {
  Endpoint endpoint;
  auto& address = reinterpret_cast<sockaddr_un&>(endpoint.address);
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), kPathBytesMax));   // the rest is zero
  endpoint.size = sizeof address;
  return endpoint;
}

Result<std::vector<Endpoint>> resolve(const Address& address, bool ask_resolver) {
  if (address.local()) return std::vector{unix_endpoint(address.path)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (ask_resolver ? 0 : AI_NUMERICHOST);
  addrinfo* found = nullptr;
  int failure = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failure) return error(Code::unavailable, "cannot resolve {}: {}", address.host, gai_strerror(failure));
  std::vector<Endpoint> endpoints;
  for (addrinfo* entry = found; entry && endpoints.size() < 16; entry = entry->ai_next) {
    Endpoint endpoint;
    endpoint.size = entry->ai_addrlen;
    std::memcpy(&endpoint.address, entry->ai_addr, std::min<size_t>(entry->ai_addrlen, sizeof endpoint.address));
    endpoints.push_back(endpoint);
  }
  freeaddrinfo(found);
  return endpoints;
}

}  // namespace millpond::rpc
