#include "master/namespaces.h"

#include "base/reached.h"

namespace millpond::master {

Status Namespaces::open(NamespaceId id, const std::string& tenant, const std::string& name) {
  if (tenant.empty() || name.empty() || tenant.size() > kNameBytesMax || name.size() > kNameBytesMax)
    return Status(Code::invalid, "a namespace needs a tenant and a name of 1 to {} bytes each; these have {} and {}", kNameBytesMax, tenant.size(),
                  name.size());
  auto found = names_.find(id);
  if (found == names_.end()) {
    if (names_.size() >= kMax) return Status(Code::overloaded, "{} namespaces are open: no room for {}/{}", names_.size(), tenant, name);
    names_.emplace(id, std::make_pair(tenant, name));
    return {};
  }
  if (found->second == std::make_pair(tenant, name)) return {};
  MP_REACHED("two namespaces with one hash");
  return Status(Code::refused, "namespace {}/{} has the same id {:08x} as {}/{}: choose another name", tenant, name, id.value,
                found->second.first, found->second.second);
}

}  // namespace millpond::master
