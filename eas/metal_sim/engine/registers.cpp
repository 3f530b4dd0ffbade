// Values that nobody has set: kernels compiled with -fsanitize=kernel-memory ask here for the shadow of what they load and
// store. A byte of shadow is 0 where the value is known. Only the thread's own memory can be unset: what is
// stored elsewhere must be set, and is looked at when the next question comes.
#include "engine.h"

namespace eas_sim {

constexpr unsigned long context_nbytes = 8192, scratch_nbytes = 4096;

static unsigned char clean[scratch_nbytes], origins[scratch_nbytes], outside[context_nbytes];

static bool is_own(const Worker* w, const void* p) { return (unsigned long)p - (unsigned long)w->stacks < max_threads * stack_nbytes; }
static unsigned char* shadow_of(Worker* w, const void* p) { return w->stack_shadow + ((unsigned long)p - (unsigned long)w->stacks); }

bool map_registers(Worker* w) {
  if (w->stack_shadow) return true;
  unsigned long nbytes = max_threads * (stack_nbytes + context_nbytes) + scratch_nbytes;
  unsigned char* at = (unsigned char*)mmap(nullptr, nbytes, 3, 0x4022, -1, 0);
  if (at == (unsigned char*)-1) return false;
  w->stack_shadow = at;
  w->contexts = at + max_threads * stack_nbytes;
  w->stored_shadow = w->contexts + max_threads * context_nbytes;
  return true;
}

// An unset value of a thread that has asked a missing lane is that lane's.
static void report_unset(Fiber* f, const void* site) {
  Sanitizer* s = f->worker->launch->sanitizer;
  Report r = {};
  r.kind = unset;
  const Question& asked = f->worker->asked[f->index_in_threadgroup];
  if (asked.group == f->worker->group_index + 1) {
    r.kind = missing_lane;
    r.offset = asked.lane;
    r.size = f->lane;
    site = asked.site;
  }
  r.region = ~0u;
  r.thread = f->index_in_threadgroup;
  r.group = f->worker->group_index;
  r.other_thread = ~0u;
  r.site = site;
  for (unsigned i = 0; i < s->n_reports; i++) if (s->reports[i].site == site) return;
  if (s->n_reports < s->max_reports) s->reports[s->n_reports++] = r;
}

// What the last store outside of the thread's memory has left in its shadow.
static void check_stored(Fiber* f) {
  Worker* w = f->worker;
  if (!w->stored_nbytes) return;
  unsigned unset_bytes = 0;
  for (unsigned i = 0; i < w->stored_nbytes; i++) unset_bytes += w->stored_shadow[i] != 0;
  // A struct may have padding.
  if (w->stored_nbytes <= 8 ? unset_bytes : unset_bytes == w->stored_nbytes) report_unset(&w->fibers[w->stored_thread], w->stored_site);
  memset(w->stored_shadow, 0, w->stored_nbytes);
  w->stored_nbytes = 0;
}

void registers_begin_thread(Fiber* f) {
  if (!f->worker->launch->checks_registers) return;
  check_stored(f);
  memset(f->worker->contexts + f->index_in_threadgroup * context_nbytes, 0, context_nbytes);
}

// The lanes' values must be set; the last quarter of a vector of three is padding.
void registers_exchange(Fiber* f, const void* value, unsigned size, unsigned* mask, const void* site) {
  Worker* w = f->worker;
  if (!w->launch->checks_registers) return;
  check_stored(f);
  if (is_own(w, mask)) memset(shadow_of(w, mask), 0, sizeof *mask);
  if (!is_own(w, value)) return;
  const unsigned char* shadow = shadow_of(w, value);
  unsigned unset_bytes = 0, at_end = 0;
  for (unsigned i = 0; i < size; i++) unset_bytes += shadow[i] != 0, at_end += i >= size - size / 4 && shadow[i];
  if (unset_bytes && !(unset_bytes == at_end && unset_bytes == size / 4)) report_unset(f, site);
}

void registers_end_group(Worker* w) { if (w->launch->checks_registers) check_stored(&w->fibers[0]); }

}  // namespace eas_sim

using namespace eas_sim;

struct Shadow { void* values; void* origins; };

static Shadow on_load(void* p) {
  if (!is_running()) return {clean, origins};
  Fiber* f = current_fiber();
  check_stored(f);
  return {is_own(f->worker, p) ? shadow_of(f->worker, p) : clean, origins};
}

static Shadow on_store(void* p, unsigned long n, const void* site) {
  if (!is_running()) return {outside, origins};
  Fiber* f = current_fiber();
  Worker* w = f->worker;
  check_stored(f);
  if (is_own(w, p)) return {shadow_of(w, p), origins};
  w->stored_nbytes = n < scratch_nbytes ? (unsigned)n : 0;
  w->stored_site = site;
  w->stored_thread = f->index_in_threadgroup;
  return {w->stored_shadow, origins};
}

static void copied(void* to, const void* from, unsigned long n, const void* site) {
  if (!is_running()) return;
  Fiber* f = current_fiber();
  Worker* w = f->worker;
  check_stored(f);
  const unsigned char* shadow = is_own(w, from) ? shadow_of(w, from) : nullptr;
  if (is_own(w, to)) {
    if (shadow) memmove(shadow_of(w, to), shadow, n);
    else memset(shadow_of(w, to), 0, n);
    return;
  }
  unsigned long unset_bytes = 0;
  for (unsigned long i = 0; shadow && i < n; i++) unset_bytes += shadow[i] != 0;
  if (n && unset_bytes == n) report_unset(f, site);
}

#define HERE __builtin_return_address(0)

extern "C" {

void* __msan_get_context_state() {
  if (!is_running()) return outside;
  Fiber* f = current_fiber();
  return f->worker->contexts + f->index_in_threadgroup * context_nbytes;
}

#define SHADOW_OF(N) \
  Shadow __msan_metadata_ptr_for_load_##N(void* p) { return on_load(p); } \
  Shadow __msan_metadata_ptr_for_store_##N(void* p) { return on_store(p, N, HERE); }
SHADOW_OF(1) SHADOW_OF(2) SHADOW_OF(4) SHADOW_OF(8)
Shadow __msan_metadata_ptr_for_load_n(void* p, unsigned long) { return on_load(p); }
Shadow __msan_metadata_ptr_for_store_n(void* p, unsigned long n) { return on_store(p, n, HERE); }

void __msan_poison_alloca(void* p, unsigned long n, const char*) {
  if (is_running() && is_own(current_fiber()->worker, p)) memset(shadow_of(current_fiber()->worker, p), 0xff, n);
}
void __msan_unpoison_alloca(void* p, unsigned long n) {
  if (is_running() && is_own(current_fiber()->worker, p)) memset(shadow_of(current_fiber()->worker, p), 0, n);
}
void __msan_warning(unsigned) { if (is_running()) report_unset(current_fiber(), HERE); }
void eas_sim_missing_lane(unsigned lane, void* value, unsigned size) {
  Fiber* f = current_fiber();
  if (!f->worker->launch->checks_registers || !is_own(f->worker, value)) return;
  memset(shadow_of(f->worker, value), 0xff, size);
  f->worker->asked[f->index_in_threadgroup] = {HERE, f->worker->group_index + 1, (int)lane};
}
unsigned __msan_chain_origin(unsigned origin) { return origin; }
void __msan_instrument_asm_store(void*, unsigned long) {}

void* __msan_memcpy(void* to, const void* from, unsigned long n) { copied(to, from, n, HERE); return memcpy(to, from, n); }
void* __msan_memmove(void* to, const void* from, unsigned long n) { copied(to, from, n, HERE); return memmove(to, from, n); }
void* __msan_memset(void* to, int value, unsigned long n) {
  if (is_running() && is_own(current_fiber()->worker, to)) memset(shadow_of(current_fiber()->worker, to), 0, n);
  return memset(to, value, n);
}

}  // extern "C"
