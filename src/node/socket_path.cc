#include "node/socket_path.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace millpond::node {

Result<std::string> make_socket_path(const std::string& directory, NodeId node_id, NodeEpoch epoch) {
  std::string place = directory;
  if (place.empty()) {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    place = runtime && *runtime ? std::string(runtime) + "/millpond" : fmt::format("/tmp/millpond-{}", getuid());
  }
  std::string path = fmt::format("{}/node-{:016x}-{:x}.sock", place, node_id.value, epoch.value);
  size_t path_max = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > path_max) {
    return error(Code::invalid, "socket_directory {}: the socket's path would have {} bytes, and {} are allowed: choose a shorter one", place, path.size(), path_max);
  }
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(place).parent_path(), failed);
  if (mkdir(place.c_str(), 0700) != 0 && errno != EEXIST) return error(Code::invalid, "socket_directory {}: cannot be made: {}", place, std::strerror(errno));
  // /tmp is everybody's: in a directory of another user the socket could be replaced.
  struct stat found {};
  if (lstat(place.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return error(Code::invalid, "socket_directory {}: not a directory", place);
  if (found.st_uid != getuid() || (found.st_mode & 0022) != 0) {
    return error(Code::invalid, "socket_directory {}: belongs to user {} with mode {:o}; it must be ours and writable for us alone", place, found.st_uid, found.st_mode & 07777);
  }
  unlink(path.c_str());                  // of an earlier life with the same id and epoch: nobody else has that name
  return path;
}

}  // namespace millpond::node
