// Threadgroups that meet at an atomic, with fences: what one did before a fence and an atomic operation behind it is visible to
// another that performs an atomic operation on the location later, and then a fence. Relaxed atomics alone order nothing else.
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

void note_fence(Sanitizer* s, unsigned thread) { s->fences[thread] = ++s->clock; }

void note_atomic(Sanitizer* s, unsigned long address, unsigned group, unsigned thread) {
  Meeting* m = find_meeting(s, address, group);
  if (m) *m = {address, group, s->fences[thread], s->clock, thread};
}

bool passed_on(Sanitizer* s, const Access& a, unsigned group, unsigned thread) {
  for (unsigned i = 0; i < s->max_meetings; i++) {
    const Meeting& gave = s->meetings[i];
    if (gave.group != a.group || a.clock >= gave.fence_clock) continue;
    const Meeting* took = find_meeting(s, gave.address, group);
    if (!took || took->group != group || took->last_clock < gave.last_clock) continue;
    unsigned fence = s->fences[took->thread];
    // The thread itself, or one that met it at a barrier since.
    if (fence > took->last_clock && (took->thread == thread || fence < s->group_sync[0])) return true;
  }
  return false;
}

}  // namespace eas_sim
