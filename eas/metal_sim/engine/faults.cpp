// A kernel that touches memory which is not there: its name and the next step on stderr, then what happens otherwise.
#include "engine.h"

namespace {

constexpr int sigbus = 7, sigsegv = 11, on_stack_with_info = 0x08000000 | 4, from_a_process = 0, from_a_fault = 1;

struct Info { int signal, error, code; };
struct Action { void (*act)(int, Info*, void*); unsigned long mask[16]; int flags; void (*restore)(); };   // of glibc

thread_local eas_sim::Launch* current_launch;     // the launch that this OS thread works for
Action previous[2];

}  // namespace

extern "C" {
int sigaction(int, const Action*, Action*);
int raise(int);
long write(int, const void*, unsigned long);
}

namespace {

// One line, in one write: several OS threads may meet here.
void tell(const char* name) {
  char line[400];
  unsigned n = 0;
  const char* parts[] = {"eas: kernel ", name, " touched memory outside of its buffers; EAS_SANITIZE=1 names the line\n"};
  for (const char* part : parts)
    for (unsigned i = 0; part[i] && i < 200; i++) line[n++] = part[i];
  if (write(2, line, n) < 0) return;
}

// The old action is put back: the access is tried again when this returns, and meets it.
void on_fault(int signal, Info* info, void*) {
  if (info->code != from_a_process && current_launch) tell(current_launch->name);
  sigaction(signal, &previous[signal == sigsegv], nullptr);
  if (info->code < from_a_fault) raise(signal);          // another handler, which calls raise, or kill: nothing is tried again
}

}  // namespace

namespace eas_sim {

Launch* set_running(Launch* launch) {
  Launch* before = current_launch;
  current_launch = launch;
  return before;
}

bool is_running() { return current_launch != nullptr; }

}  // namespace eas_sim

extern "C" void eas_sim_watch_faults() {
  Action mine = {on_fault, {}, on_stack_with_info, nullptr};
  sigaction(sigbus, &mine, &previous[0]);
  sigaction(sigsegv, &mine, &previous[1]);
}
