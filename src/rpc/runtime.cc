#include "rpc/runtime.h"

#include "wire/frame.h"

namespace millpond::rpc {

void Responder::fail(Status status) { answer({.kind = wire::Kind::failure, .body = wire::failure_body(status)}); }

Result<Landing> Service::land(const Request& request) {
  return error(Code::invalid, "a {} takes no payload, {} bytes came", wire::name(request.kind), request.payload_bytes);
}

}  // namespace millpond::rpc
