// master and node: put together, announced, ended.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <csignal>
#include <random>

#include "ask_loop.h"
#include "base/log.h"
#include "command_line.h"
#include "commands.h"
#include "signals.h"
#include "wire/messages_generated.h"

namespace millpond::apps {
namespace {

uint64_t random_number() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}
// Later starts are larger; 44 bits, because removal numbers are (term << 20) + n.
uint64_t milliseconds_of_now() {
  return uint64_t(std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

Result<std::unique_ptr<admin::Server>> start_admin(const admin::Options& admin, rpc::Runtime& runtime, Metrics& metrics, std::vector<config::Section>& tables,
                                                   std::vector<std::string> shown, std::function<std::string()> state) {
  std::vector<config::Section> ours;
  for (auto& table : tables)
    for (auto& name : shown)
      if (table.name() == name) ours.push_back(table);
  auto post = [&runtime](std::function<void()> task) { runtime.post(std::move(task)); };
  return admin::Server::start(admin,
                              {.state_json = [post, state] { return ask_loop(post, state); },
                               .config_json = [ours] { return Result<std::string>(config::json(ours)); },
                               .health = [post] {
                                 auto answer = ask_loop(post, [] { return std::string(); });
                                 return answer ? Status() : answer.error();
                               }},
                              metrics);
}

int cannot_start(const char* what, const Status& why) {
  fmt::print(stderr, "millpond {}: {}\n", what, why.message());
  return kUsage;
}

// Scripts wait for this line.
void announce(const char* what, const std::string& address, const std::string& more, const admin::Server& admin) {
  fmt::print("millpond {} listening on {}{}{}\n", what, address, more, admin.address().empty() ? "" : ", admin http://" + admin.address());
  std::fflush(stdout);
}

void wait_for_the_end(Signals& signals, const char* what) {
  int signal = signals.wait();
  log::info("{}: ends on {}", what, signal == SIGINT ? "SIGINT" : "SIGTERM");
}

// Runs one daemon: `start` makes it on a runtime, `state` is its /state.
template <typename Daemon>
int run_daemon(const char* what, Options& options, const admin::Options& admin_options, const std::string& more,
               const std::function<Result<std::unique_ptr<Daemon>>(rpc::Runtime&, Metrics&)>& start) {
  Signals signals;
  Metrics metrics;
  auto runtime = rpc::AsioRuntime::create(options.rpc, metrics);
  if (!runtime) return cannot_start(what, runtime.error());
  auto daemon = start(**runtime, metrics);
  if (!daemon) return cannot_start(what, daemon.error());
  auto admin = start_admin(admin_options, **runtime, metrics, options.tables, {what, "rpc"}, [&daemon] { return (*daemon)->state_json(); });
  if (!admin) return cannot_start(what, admin.error());
  announce(what, (*daemon)->address(), more, **admin);
  wait_for_the_end(signals, what);
  admin->reset();      // asks the daemon, so it goes first; no question is left on the loop (ask_loop.h)
  daemon->reset();     // says goodbye over the runtime
  return kOk;
}

}  // namespace

int run_master(Options& options) {
  options.rpc.identity.role = uint8_t(wire::Role::master);
  options.rpc.identity.master_term = MasterTerm(milliseconds_of_now());
  return run_daemon<master::Master>("master", options, options.master_admin, "",
                                    [&](rpc::Runtime& runtime, Metrics& metrics) { return master::Master::start(options.master, runtime, metrics); });
}

int run_node(Options& options) {
  options.rpc.identity.role = uint8_t(wire::Role::node);
  options.rpc.identity.node_id = NodeId(random_number());
  options.rpc.identity.node_epoch = NodeEpoch(milliseconds_of_now());
  return run_daemon<node::Node>("node", options, options.node_admin, ", master " + options.node.master,
                                [&](rpc::Runtime& runtime, Metrics& metrics) { return node::Node::start(options.node, runtime, metrics); });
}

}  // namespace millpond::apps
