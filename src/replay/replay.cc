#include "replay/replay.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "replay/coordinator.h"
#include "replay/summary.h"

namespace millpond::replay {
namespace {

int complain(const Status& status, int exit_status) {
  fmt::print(stderr, "millpond replay: {}\n", status.message().empty() ? status.text() : status.message());
  return exit_status;
}

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  ~OutputFile() {
    if (file_ && file_ != stdout) std::fclose(file_);
  }
  Status open(const std::string& path) {
    path_ = path;
    file_ = path == "-" ? stdout : std::fopen(path.c_str(), "w");
    return file_ ? Status() : failure();
  }
  Status write(std::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), file_) == text.size() ? Status() : failure();
  }
  // Says what a full disk swallowed.
  Status close() {
    bool flushed = !file_ || std::fflush(file_) == 0;
    Status status = flushed ? Status() : failure();
    if (file_ && file_ != stdout) std::fclose(file_);
    file_ = nullptr;
    return status;
  }

 private:
  Status failure() const { return Status(Code::invalid, "cannot write {}: {}", path_, std::strerror(errno)); }
  std::string path_;
  FILE* file_ = nullptr;
};

std::function<void(size_t, size_t)> progress_of(const std::string& kind) {
  if (kind == "lines")
    return [](size_t done, size_t all) { fmt::print(stderr, "progress {} {}\n", done, all); };
  if (kind == "auto" && ::isatty(STDERR_FILENO))
    return [](size_t done, size_t all) {
      constexpr size_t kWidth = 40;
      size_t filled = kWidth * done / all;
      fmt::print(stderr, "\r  [{}{}] {}/{} requests", std::string(filled, '#'), std::string(kWidth - filled, '.'), done, all);
      if (done == all) fmt::print(stderr, "\r\033[K");
    };
  return nullptr;
}

}  // namespace

int run(const Options& options, const CacheFactory& factory) {
  if (Status status = validate(options); !status.ok()) return complain(status, 2);
  auto trace = read_trace(options.trace);
  if (!trace) return complain(trace.error(), 2);
  if (options.turns_max > 0 && trace->turns.size() > options.turns_max) trace->turns.resize(options.turns_max);

  // Files are opened first: a wrong path must not cost a whole run.
  OutputFile json_file, loads_file;
  for (auto [file, path] : {std::pair(&json_file, &options.json), std::pair(&loads_file, &options.loads)})
    if (!path->empty())
      if (Status status = file->open(*path); !status.ok()) return complain(status, 2);

  ReplayHooks hooks{.progress = progress_of(options.progress), .lines = {}};
  if (!options.loads.empty()) hooks.lines = [&](std::string_view lines) { return loads_file.write(lines); };
  auto result = replay_trace(options, *trace, factory, hooks);
  if (!result) return complain(result.error(), result.error().code() == Code::unavailable ? 3 : 1);

  Summary summary = summarize(options, *trace, *result);
  if (!options.json.empty())
    if (Status status = json_file.write(json(options, *trace, *result, summary)); !status.ok()) return complain(status, 1);
  for (OutputFile* file : {&json_file, &loads_file})
    if (Status status = file->close(); !status.ok()) return complain(status, 1);
  if (options.json != "-") fmt::print("{}", table(options, summary));
  std::fflush(stdout);
  if (summary.wrong_bytes > 0)
    return complain(Status(Code::corrupt, "{} bytes in {} blocks are wrong", summary.wrong_bytes, summary.wrong_blocks), 1);
  return 0;
}

}  // namespace millpond::replay
