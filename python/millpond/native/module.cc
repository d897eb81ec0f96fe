// millpond._native: the C++ pool for Python. Argument shapes, defaults and words for people are in millpond/_pool.py;
// here objects become spans, the GIL is released, and answers become tuples.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <tuple>

#include "buffers.h"
#include "millpond/pool.h"

namespace nb = nanobind;

namespace millpond::python {
namespace {

using Deadline = Pool::Deadline;

std::string key_of(nb::handle key, size_t number) {
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (!text) throw nb::python_error();
    return std::string(text, size_t(size));
  }
  if (PyBytes_Check(key.ptr())) return std::string(PyBytes_AS_STRING(key.ptr()), size_t(PyBytes_GET_SIZE(key.ptr())));
  throw nb::type_error(("key " + std::to_string(number) + " is neither str nor bytes").c_str());
}

std::vector<std::string> keys_of(const nb::list& keys) {
  std::vector<std::string> out;
  out.reserve(keys.size());
  for (nb::handle key : keys) out.push_back(key_of(key, out.size()));
  return out;
}

using Places = std::vector<std::tuple<std::string, std::string, std::string>>;
using FoundTuple = std::tuple<uint64_t, Places>;

FoundTuple tuple_of(const Found& found) {
  Places places;
  for (auto& r : found.replicas) places.emplace_back(r.node, r.address, r.tier);
  return {found.length, std::move(places)};
}

// What a lookup found; blocks become Python objects only when asked for.
struct NativeLookup {
  Lookup found;
};

class NativePool {
  // Calls without the GIL; the pool stays open meanwhile, whoever closes it.
  template <typename Call>
  auto run(Call call) {
    auto pool = pool_;
    if (!pool) throw nb::value_error("this pool is closed");
    if (forked()) throw nb::value_error("this pool was opened before os.fork(), in the parent process; open one in the child");
    nb::gil_scoped_release release;
    auto answer = call(*pool);
    pool.reset();
    return answer;
  }

 public:
  explicit NativePool(PoolOptions options) {
    nb::gil_scoped_release release;
    opened_by_ = getpid();
    pool_ = Pool::open(std::move(options));
  }
  ~NativePool() { close(); }

  // The pool ends when the last call in it has returned.
  void close() {
    auto pool = std::move(pool_);
    pool_.reset();
    if (pool && forked()) {              // its threads are the parent's, to be waited for in vain; so is its socket
      new std::shared_ptr<Pool>(std::move(pool));
      return;
    }
    nb::gil_scoped_release release;
    pool.reset();
  }
  bool closed() const { return pool_ == nullptr; }

  NativeLookup lookup(const nb::list& keys, uint64_t ms) {
    auto list = keys_of(keys);
    return {run([&](Pool& pool) { return pool.lookup(list, Deadline(ms)); })};
  }

  std::vector<FoundTuple> locate(const nb::list& keys, uint64_t ms) {
    auto list = keys_of(keys);
    auto found = run([&](Pool& pool) { return pool.locate(list, Deadline(ms)); });
    std::vector<FoundTuple> out;
    for (auto& f : found) out.push_back(tuple_of(f));
    return out;
  }

  std::vector<std::tuple<int, uint64_t, std::string, std::string>> load(const nb::list& keys, const nb::list& targets,
                                                                        const NativeLookup* found, uint64_t ms) {
    Buffers buffers;
    std::vector<LoadBlock> blocks;
    for (size_t i = 0; i < keys.size(); ++i)
      blocks.push_back({key_of(keys[i], i), buffers.pieces(targets[i], true, "target " + std::to_string(i))});
    Lookup by;                           // load() goes by its plan alone; the blocks need no copy
    if (found) by.plan = found->found.plan;
    auto answers = run([&](Pool& pool) { return pool.load(by, blocks, Deadline(ms)); });
    std::vector<std::tuple<int, uint64_t, std::string, std::string>> out;
    for (auto& a : answers) out.emplace_back(int(a.outcome), a.length, a.owner, a.transport);
    return out;
  }

  std::vector<int> store(const nb::list& keys, const nb::list& sources, const nb::list& parents, uint64_t ms) {
    Buffers buffers;
    std::vector<StoreBlock> blocks;
    for (size_t i = 0; i < keys.size(); ++i) {
      auto pieces = buffers.pieces(sources[i], false, "block " + std::to_string(i));
      nb::handle parent = parents[i];
      blocks.push_back({key_of(keys[i], i), {pieces.begin(), pieces.end()}, parent.is_none() ? std::string() : key_of(parent, i)});
    }
    auto outcomes = run([&](Pool& pool) { return pool.store(blocks, Deadline(ms)); });
    std::vector<int> out;
    for (auto outcome : outcomes) out.push_back(int(outcome));
    return out;
  }

  // A new bytes object of the block's length, filled by the load itself; None: not to be had.
  nb::object get(nb::handle key, uint64_t ms) {
    std::string text = key_of(key, 0);
    auto found = run([&](Pool& pool) { return pool.locate({&text, 1}, Deadline(ms)); });
    uint64_t length = found.empty() ? 0 : found[0].length;
    for (int attempt = 0; attempt < 2 && length > 0; ++attempt) {
      nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(length)));
      if (!bytes.is_valid()) throw nb::python_error();
      // Nobody else has seen this object yet.
      LoadBlock block{text, {{reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())), length}}};
      auto answer = run([&](Pool& pool) { return pool.load({&block, 1}, Deadline(ms)); }).at(0);
      if (answer.outcome == Outcome::ok && answer.length == length) return bytes;
      // Removed and stored anew with another length in between: once more, with that.
      if (answer.outcome != Outcome::ok && answer.outcome != Outcome::invalid) break;
      length = answer.length;
    }
    return nb::none();
  }

  size_t remove(const nb::list& keys, uint64_t ms) {
    auto list = keys_of(keys);
    return run([&](Pool& pool) { return pool.remove(list, Deadline(ms)); });
  }
  int remove_all(uint64_t ms) {
    return int(run([&](Pool& pool) { return pool.remove_all(Deadline(ms)); }));
  }
  std::string explain(nb::handle key, uint64_t ms) {
    std::string text = key_of(key, 0);
    return run([&](Pool& pool) { return pool.explain(text, Deadline(ms)); });
  }
  std::string stat_json(uint64_t ms) {
    return run([&](Pool& pool) { return pool.stat_json(Deadline(ms)); });
  }

 private:
  bool forked() const { return getpid() != opened_by_; }
  std::shared_ptr<Pool> pool_;           // with the GIL
  pid_t opened_by_ = 0;
};

}  // namespace
}  // namespace millpond::python

NB_MODULE(_native, m) {
  using namespace millpond;
  using namespace millpond::python;
  m.doc() = "The C++ side of millpond; use millpond.Pool.";

  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& e) {
      nb::object made = nb::module_::import_("millpond").attr("PoolError")(e.message, name(e.outcome));
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });

  m.def("outcome_name", [](int code) { return std::string(name(Outcome(code))); });

  nb::class_<NativeLookup>(m, "Lookup")
      .def_prop_ro("matched", [](const NativeLookup& l) { return l.found.matched; })
      .def_prop_ro("warming", [](const NativeLookup& l) { return l.found.warming; })
      .def_prop_ro("outcome", [](const NativeLookup& l) { return int(l.found.outcome); })
      .def_prop_ro("lengths", [](const NativeLookup& l) {
        std::vector<uint64_t> lengths;
        for (auto& block : l.found.blocks) lengths.push_back(block.length);
        return lengths;
      })
      .def_prop_ro("blocks", [](const NativeLookup& l) {
        std::vector<FoundTuple> blocks;
        for (auto& block : l.found.blocks) blocks.push_back(tuple_of(block));
        return blocks;
      });

  nb::class_<NativePool>(m, "Pool")
      .def("__init__", [](NativePool* self, std::string master, std::string tenant, std::string space, std::string transports,
                          std::string cluster_id, std::string cluster_key, uint64_t memory, std::string listen, uint64_t open_ms) {
        new (self) NativePool({.master = std::move(master), .tenant = std::move(tenant), .namespace_name = std::move(space),
                               .transports = std::move(transports), .cluster_id = std::move(cluster_id),
                               .cluster_key = std::move(cluster_key), .memory_bytes = memory, .listen = std::move(listen),
                               .open_deadline = std::chrono::milliseconds(open_ms)});
      }, nb::arg("master"), nb::arg("tenant"), nb::arg("namespace"), nb::arg("transports"), nb::arg("cluster_id"),
         nb::arg("cluster_key"), nb::arg("memory"), nb::arg("listen"), nb::arg("open_ms"))
      .def("close", &NativePool::close)
      .def_prop_ro("closed", &NativePool::closed)
      .def("lookup", &NativePool::lookup, nb::arg("keys"), nb::arg("ms"))
      .def("locate", &NativePool::locate, nb::arg("keys"), nb::arg("ms"))
      .def("load", &NativePool::load, nb::arg("keys"), nb::arg("targets"), nb::arg("found").none(), nb::arg("ms"))
      .def("store", &NativePool::store, nb::arg("keys"), nb::arg("sources"), nb::arg("parents"), nb::arg("ms"))
      .def("get", &NativePool::get, nb::arg("key"), nb::arg("ms"))
      .def("remove", &NativePool::remove, nb::arg("keys"), nb::arg("ms"))
      .def("remove_all", &NativePool::remove_all, nb::arg("ms"))
      .def("explain", &NativePool::explain, nb::arg("key"), nb::arg("ms"))
      .def("stat_json", &NativePool::stat_json, nb::arg("ms"));
}
