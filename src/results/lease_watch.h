// Whether somebody else's lease is renewed, judged by looking at it: by what changes, and by the
// own steady clock. No other host's time is trusted, nor the dates of files.
#pragma once

#include <map>
#include <set>
#include <string>

namespace sftbench {

class LeaseWatch {
 public:
  // `sign` is what a renewal changes. True when it has not changed for `lease_s` seconds in which
  // this was asked about it. A gap between two questions counts as half a lease at most: this
  // process may have been stopped in it, and the other one with it.
  bool silent(const std::string& name, const std::string& sign, double lease_s, double now_s);

  void keep_only(const std::set<std::string>& names);

 private:
  struct Seen {
    std::string sign;
    double watched_s = 0;
    double last_s = 0;
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace sftbench
