#include "rpc/asio_runtime.h"

#include <sodium.h>

#include <system_error>

#include "base/check.h"
#include "rpc/channel.h"
#include "rpc/core.h"
#include "rpc/listener.h"

namespace millpond::rpc {
namespace {

// What the user holds. The state lives on the loop and may outlive it by a moment.
class AsioChannel : public Channel {
 public:
  explicit AsioChannel(std::shared_ptr<Core> core, PeerAddress peer) : loop_(core->loop), state_(std::make_shared<ChannelState>(core, std::move(peer))) {
    loop_->post([core = core.get(), state = state_] {
      if (core->ending) state->end();
      else core->parts.insert(state);
    });
  }
  ~AsioChannel() override {
    loop_->post([state = std::move(state_)] { state->end(); });
  }
  void call(Message request, Time deadline, LandReply land, Done done) override {
    state_->call(std::move(request), deadline, std::move(land), std::move(done));
  }
  std::vector<int> shared_fds() const override { return state_->shared_fds(); }

 private:
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<ChannelState> state_;
};

}  // namespace

Result<std::unique_ptr<AsioRuntime>> AsioRuntime::create(Options options, Metrics& metrics) {
  MP_CHECK(sodium_init() >= 0, "libsodium does not start");
  try {
    auto core = std::make_shared<Core>(std::move(options), metrics);
    core->loop->post([core = core.get()] { core->sweep(); });
    return std::unique_ptr<AsioRuntime>(new AsioRuntime(std::move(core)));
  } catch (const std::system_error& failure) {   // Asio and std::thread know no other way
    return error(Code::unavailable, "cannot start a network thread: {}", failure.what());
  }
}

AsioRuntime::AsioRuntime(std::shared_ptr<Core> core) : core_(std::move(core)) {}

AsioRuntime::~AsioRuntime() {
  core_->loop->finish([core = core_.get()] { core->end(); });
}

Time AsioRuntime::now() const { return Loop::now(); }

uint64_t AsioRuntime::random() { return Random(core_->random_state.fetch_add(0x9E3779B97F4A7C15ull)).next(); }

void AsioRuntime::post(std::function<void()> task) { core_->loop->post(std::move(task)); }

std::shared_ptr<void> AsioRuntime::after(Duration delay, std::function<void()> task) { return core_->loop->after(delay, std::move(task)); }

std::shared_ptr<Channel> AsioRuntime::channel(PeerAddress peer) { return std::make_shared<AsioChannel>(core_, std::move(peer)); }

Result<std::string> AsioRuntime::listen(ListenOptions options, Service* service) {
  MP_TRY(auto listener, Listener::open(core_, std::move(options), service));
  core_->loop->post([core = core_.get(), listener] {
    if (core->ending) return listener->end();
    core->parts.insert(listener);
    listener->start();
  });
  return listener->address();
}

const Identity& AsioRuntime::identity() const { return core_->options.identity; }

}  // namespace millpond::rpc
