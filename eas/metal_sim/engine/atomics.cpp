// Threadgroups that meet at an atomic: what one did before its last atomic operation on a location is
// visible to another that touches the location later. So a last threadgroup may read what all have written.
#include "engine.h"

namespace eas_sim {

static Meeting* find_meeting(Sanitizer* s, unsigned long address, unsigned group) {
  unsigned mask = s->max_meetings - 1;
  unsigned at = (unsigned)((address >> 2) * 0x9E3779B97F4A7C15ul >> 32) ^ group * 0x85EBCA6Bu;
  for (unsigned tries = 0; tries < s->max_meetings; tries++, at++) {
    Meeting& m = s->meetings[at & mask];
    if (!m.group || (m.group == group && m.address == address)) return &m;
  }
  return nullptr;
}

void note_atomic(Sanitizer* s, unsigned long address, unsigned group, unsigned thread) {
  Meeting* m = find_meeting(s, address, group);
  if (!m) return;
  if (!m->group) *m = {address, group, s->clock, s->clock, (unsigned short)thread, (unsigned short)thread};
  m->last_clock = s->clock;
  m->last_thread = (unsigned short)thread;
}

bool passed_on(Sanitizer* s, const Access& a, unsigned group, unsigned thread) {
  for (unsigned i = 0; i < s->max_meetings; i++) {
    const Meeting& gave = s->meetings[i];
    if (gave.group != a.group || (a.clock >= gave.last_clock && a.thread != gave.last_thread)) continue;
    const Meeting* took = find_meeting(s, gave.address, group);
    if (!took || took->group != group || took->last_clock < gave.last_clock) continue;
    if (took->first_thread == thread || took->first_clock < s->clock) return true;
  }
  return false;
}

}  // namespace eas_sim
