// What each command does once everything is parsed. Each answers the exit status (command_line.h).
#pragma once
#include <string>
#include <vector>

#include "options.h"

namespace millpond::apps {

int run_master(Options& options);
int run_node(Options& options);

struct Words {                              // what stood on the command line beside settings
  std::vector<std::string> first, second;   // KEY…; FILE
  std::string output;                       // get -o
  bool json = false;
  bool all = false;                         // rm --all
  bool toml = false, markdown = false;      // config
};
int run_put(Options& options, Words& words);
int run_get(Options& options, Words& words);
int run_locate(Options& options, Words& words);
int run_remove(Options& options, Words& words);
int run_stat(Options& options, Words& words);
int run_bench(Options& options, Words& words);
int run_replay(Options& options, Words& words);
int run_config(Options& options, Words& words);

}  // namespace millpond::apps
