#include "transfer/way.h"

#include "wire/message.h"

namespace millpond::transfer {

void send_recheck(const std::shared_ptr<Way>& way, std::vector<BlockId> ids, Time deadline,
                  std::function<void(std::vector<Code>)> done) {
  wire::Builder builder;
  rpc::Message request{.kind = wire::Kind::recheck};
  request.body = wire::finish(builder, wire::CreateRecheck(builder, wire::ids(builder, ids)));
  size_t asked = ids.size();
  way->channel()->call(std::move(request), deadline, nullptr,
                       [asked, done = std::move(done), way = std::weak_ptr(way)](Result<rpc::Reply> reply) {
    std::vector<Code> codes(asked, reply ? Code::unavailable : outcome_of(reply.error().code()));
    if (reply && reply->kind == wire::Kind::recheck_reply) {
      auto parsed = wire::parse<wire::RecheckReply>(reply->body);
      auto answers = parsed ? wire::span_of((*parsed)->codes()) : std::span<const uint8_t>();
      if (answers.size() == asked)
        for (size_t i = 0; i < asked; ++i) {
          auto code = Code(answers[i]);
          codes[i] = code == Code::ok || code == Code::corrupt ? code : Code::miss;
        }
    }
    if (auto open = way.lock()) {
      for (auto code : codes) {
        if (code == Code::ok) open->counters.recheck_good.add();
        if (code == Code::corrupt) open->counters.recheck_bad.add();
      }
    }
    done(std::move(codes));
  });
}

}  // namespace millpond::transfer
