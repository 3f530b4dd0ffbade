// The scheduler: runs the threads of one threadgroup after another on this OS thread, and switches
// between them at barriers and simdgroup operations. A thread gets a stack of its own only when it
// has to wait: until then all threads run one after another on the same stack, as plain calls.
#include "engine.h"
#include "fibers.h"

namespace eas_sim {

static constexpr int poison = 0xff;      // threadgroup memory starts as NaN, so that nobody relies on zeros

static Worker* idle_workers = nullptr;
static unsigned workers_lock = 0;

static void lock_workers() { while (__atomic_exchange_n(&workers_lock, 1, __ATOMIC_ACQUIRE)) {} }
static void unlock_workers() { __atomic_store_n(&workers_lock, 0, __ATOMIC_RELEASE); }

static Worker* take_worker() {
  lock_workers();
  Worker* w = idle_workers;
  if (w) idle_workers = w->next;
  unlock_workers();
  if (w) return w;
  unsigned long size = sizeof(Worker) + arena_capacity + 64;
  w = (Worker*)mmap(nullptr, size, 3, 0x22, -1, 0);
  if (w == (Worker*)-1) return nullptr;
  w->arena = (unsigned char*)(((unsigned long)(w + 1) + 63) & ~63ul);
  w->stacks = map_stacks(max_threads);
  return w->stacks ? w : nullptr;
}

static void return_worker(Worker* w) {
  lock_workers();
  w->next = idle_workers;
  idle_workers = w;
  unlock_workers();
}

// --- who runs next --------------------------------------------------------------------------------

static void make_ready(Worker* w, Fiber* f) {
  f->state = running;
  w->ready[(w->ready_head + w->n_ready++) % max_threads] = (unsigned short)f->index_in_threadgroup;
}

static Fiber* pop_ready(Worker* w) {
  if (!w->n_ready) return nullptr;
  Fiber* f = &w->fibers[w->ready[w->ready_head]];
  w->ready_head = (w->ready_head + 1) % max_threads;
  w->n_ready--;
  return f;
}

static void run_threads(void* worker);

static void* free_stack(Worker* w) {
  return w->n_free ? w->free_stacks[--w->n_free] : w->stacks + w->n_stacks++ * stack_nbytes;
}

static unsigned stack_number(Worker* w, void* stack) { return ((unsigned char*)stack - w->stacks) / stack_nbytes; }

// Where to go on when nobody is ready: a fresh stack for threads that have not started, or the end of the group.
static void* fresh_stack_pointer(Worker* w) {
  if (w->n_started == w->n_threads) return w->main_sp;
  void* stack = free_stack(w);
  return prepare_stack(stack, stack_number(w, stack), run_threads, w);
}

// --- errors ---------------------------------------------------------------------------------------

[[noreturn]] void abandon(Fiber* f, const Report& report) {
  Launch* launch = f->worker->launch;
  if (!__atomic_exchange_n(&launch->stop, 1, __ATOMIC_ACQ_REL)) launch->error = report;
  void* unused;
  eas_sim_switch(&unused, f->worker->main_sp);
  __builtin_unreachable();
}

static Report about(ErrorKind kind, const Fiber* f, const void* site) {
  Report r = {};
  r.kind = kind;
  r.region = ~0u;
  r.thread = f->index_in_threadgroup;
  r.group = f->worker->group_index;
  r.other_thread = ~0u;
  r.site = site;
  return r;
}

static void diverged(Fiber* f, Fiber* other) {
  Report r = about(divergent_barrier, f, f->site);
  r.other_thread = other->index_in_threadgroup;
  r.other_group = r.group;
  r.other_site = other->state == finished ? nullptr : other->site;
  abandon(current_fiber(), r);
}

// --- barriers and rendezvous ----------------------------------------------------------------------

// All lanes of a simdgroup wait: release those at the first site in code order. Lanes that still go
// around a loop are so taken before those that wait behind it.
static void release_lanes(Worker* w, unsigned number) {
  Simdgroup& s = w->simdgroups[number];
  Fiber* lanes = &w->fibers[number * 32];
  const void* site = nullptr;
  unsigned mask = 0;
  for (unsigned m = s.waiting; m; m &= m - 1) {
    unsigned lane = __builtin_ctz(m);
    const void* at = lanes[lane].site;
    if (!mask || at < site) mask = 0, site = at;
    if (at == site) mask |= 1u << lane;
  }
  unsigned char* result = s.slots[s.parity];
  s.result_parity = s.parity;
  s.parity ^= 1;
  s.result_mask = mask;
  s.waiting &= ~mask;
  for (unsigned m = s.waiting; m; m &= m - 1) {       // those that wait elsewhere deposit again
    unsigned at = __builtin_ctz(m) * exchange_stride;
    memcpy(s.slots[s.parity] + at, result + at, exchange_stride);
  }
  Fiber* first = &lanes[__builtin_ctz(mask)];
  if (first->is_simd_barrier) {
    sanitizer_barrier(first, scope_simdgroup, first->mem_flags);
    if (w->launch->sanitizer)
      for (unsigned i = number * 32; i < w->n_threads && i < number * 32 + 32; i++)
        if (!(mask >> (i % 32) & 1)) diverged(first, &w->fibers[i]);
  }
  for (unsigned m = mask; m; m &= m - 1) s.n_running++, make_ready(w, &lanes[__builtin_ctz(m)]);
}

static void release_barrier(Worker* w, Fiber* f) {
  for (unsigned i = 0; i < w->n_threads; i++) {
    Fiber* other = &w->fibers[i];
    if (other->state == finished ? !w->launch->allow_exited : other->site != f->site) diverged(f, other);
  }
  sanitizer_barrier(f, scope_threadgroup, f->mem_flags);
  w->n_arrived = 0;
  for (unsigned i = 0; i < w->n_threads; i++)
    if (w->fibers[i].state == at_barrier) w->simdgroups[i / 32].n_running++, make_ready(w, &w->fibers[i]);
}

// `f` stops running, at a barrier, an exchange or its end: others may be able to go on now.
static void stopped(Worker* w, Fiber* f) {
  Simdgroup& s = w->simdgroups[f->simdgroup];
  if (--s.n_running == 0 && s.waiting) release_lanes(w, f->simdgroup);
  if (!w->n_arrived || w->n_arrived != w->n_alive) return;
  Fiber* waiting = f;
  for (unsigned i = 0; waiting->state != at_barrier; i++) waiting = &w->fibers[i];
  release_barrier(w, waiting);
}

static void wait(Worker* w, Fiber* f) {
  stopped(w, f);
  Fiber* next = pop_ready(w);
  if (next != f) eas_sim_switch(&f->sp, next ? next->sp : fresh_stack_pointer(w));
}

// --- threads --------------------------------------------------------------------------------------

// Runs on a stack of its own: threads that have not started, one after another, until one of them waits.
static void run_threads(void* worker) {
  Worker* w = (Worker*)worker;
  unsigned char* here = (unsigned char*)__builtin_frame_address(0);
  void* stack = (void*)((unsigned long)here & ~(stack_nbytes - 1));
  while (w->n_started < w->n_threads) {
    Fiber* f = &w->fibers[w->n_started++];
    *(Fiber**)stack = f;
    f->stack = stack;
    f->state = running;
    registers_begin_thread(f);
    w->launch->entry(f, w->slots);
    f->state = finished;
    w->n_alive--;
    stopped(w, f);
    if (w->n_ready) break;
  }
  // Nobody else runs on this OS thread before the switch, so the stack can be given back from itself.
  w->free_stacks[w->n_free++] = stack;
  Fiber* next = pop_ready(w);
  void* unused;
  eas_sim_switch(&unused, next ? next->sp : fresh_stack_pointer(w));
}

static unsigned minimum(unsigned a, unsigned b) { return a < b ? a : b; }

// The numbers that are the same in all threadgroups of one size.
static void shape_group(Worker* w, const unsigned size[3]) {
  Launch* l = w->launch;
  unsigned full = l->threads[0] * l->threads[1] * l->threads[2];
  w->n_threads = size[0] * size[1] * size[2];
  for (unsigned i = 0; i < w->n_threads; i++) {
    Fiber& f = w->fibers[i];
    unsigned position[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    for (int a = 0; a < 3; a++) {
      f.position_in_threadgroup[a] = position[a];
      f.threads_per_threadgroup[a] = size[a];
      f.dispatch_threads_per_threadgroup[a] = l->threads[a];
      f.threads_per_grid[a] = l->grid_threads[a];
      f.threadgroups_per_grid[a] = l->groups[a];
    }
    f.index_in_threadgroup = i;
    f.lane = i % 32, f.simdgroup = i / 32, f.simd_width = 32;
    f.quad_lane = i % 4, f.quadgroup = i / 4;
    f.simdgroups_per_threadgroup = (w->n_threads + 31) / 32;
    f.dispatch_simdgroups_per_threadgroup = (full + 31) / 32;
    f.quadgroups_per_threadgroup = (w->n_threads + 3) / 4;
    f.dispatch_quadgroups_per_threadgroup = (full + 3) / 4;
    f.worker = w;
  }
}

static void begin_group(Worker* w, unsigned index) {
  Launch* l = w->launch;
  unsigned group[3] = {index % l->groups[0], index / l->groups[0] % l->groups[1], index / l->groups[0] / l->groups[1]};
  unsigned size[3];
  for (int a = 0; a < 3; a++) size[a] = minimum(l->threads[a], l->grid_threads[a] - group[a] * l->threads[a]);
  const unsigned* shape = w->fibers[0].threads_per_threadgroup;
  if (!w->n_threads || shape[0] != size[0] || shape[1] != size[1] || shape[2] != size[2]) shape_group(w, size);
  for (unsigned i = 0; i < w->n_threads; i++) {
    Fiber& f = w->fibers[i];
    for (int a = 0; a < 3; a++) {
      f.threadgroup_position[a] = group[a];
      f.position_in_grid[a] = group[a] * l->threads[a] + f.position_in_threadgroup[a];
    }
    f.state = unstarted;
  }
  for (unsigned s = 0; s * 32 < w->n_threads; s++) {
    w->simdgroups[s].n_running = minimum(32, w->n_threads - s * 32);
    w->simdgroups[s].waiting = 0;
  }
  w->group_index = index;
  w->n_alive = w->n_threads;
  w->n_arrived = w->n_started = w->n_ready = w->n_free = w->n_stacks = 0;
  memset(w->arena, poison, w->arena_used);
  for (unsigned i = 0; i < w->n_variables; i++)
    if (w->variables[i].is_zeroed) memset(w->arena + w->variables[i].offset, 0, w->variables[i].size);
  sanitizer_begin_group(w);
}

// Bytes of the arena; a sanitizer leaves a gap behind them. The caller has checked that they are there.
static unsigned take_arena(Worker* w, unsigned size, unsigned align) {
  unsigned offset = (w->arena_used + align - 1) & ~(align - 1);
  w->arena_real = ((w->arena_real + align - 1) & ~(align - 1)) + size;
  w->arena_used = offset + size + (w->launch->sanitizer ? red_zone : 0);
  memset(w->arena + offset, poison, size);
  return offset;
}

static void begin_launch(Worker* w, Launch* l) {
  w->launch = l;
  memset(w->asked, 0, l->checks_registers ? sizeof w->asked : 0);
  w->n_threads = w->n_variables = w->arena_used = w->arena_real = 0;
  for (unsigned i = 0; i < max_slots; i++) {
    w->slots[i] = l->buffers[i];
    w->slots[max_slots + i] = w->arena + w->arena_used;
    if (l->threadgroup_nbytes[i]) take_arena(w, l->threadgroup_nbytes[i], 16);
  }
}

static unsigned set_flush_mode(unsigned flush) {
#if defined(__x86_64__)
  unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(flush == 1 ? before | 0x8040 : flush == 2 ? before & ~0x8040u : before);
  return before & 0x8040 ? 1 : 2;
#else
  unsigned long before;
  asm volatile("mrs %0, fpcr" : "=r"(before));
  unsigned long after = flush == 1 ? before | (1ul << 24) : flush == 2 ? before & ~(1ul << 24) : before;
  asm volatile("msr fpcr, %0" : : "r"(after));
  return before & (1ul << 24) ? 1 : 2;
#endif
}

static void run_group(Worker* w) {
  void* stack = free_stack(w);
  eas_sim_switch(&w->main_sp, prepare_stack(stack, stack_number(w, stack), run_threads, w));
  registers_end_group(w);
  if (__atomic_load_n(&w->launch->stop, __ATOMIC_ACQUIRE) || !w->n_alive) return;
  for (unsigned i = 0; i < w->n_threads; i++) {     // nobody is ready, somebody waits
    if (w->fibers[i].state == finished) continue;
    if (!__atomic_exchange_n(&w->launch->stop, 1, __ATOMIC_ACQ_REL))
      w->launch->error = about(deadlock, &w->fibers[i], w->fibers[i].site);
    return;
  }
}

}  // namespace eas_sim

using namespace eas_sim;

// --- what Python calls ----------------------------------------------------------------------------

static long now_ms() {
  long t[2];
  clock_gettime(1, t);
  return t[0] * 1000 + t[1] / 1000000;
}

// 0: no threadgroup is left; 1: no memory; 2: the slice (0: none) has passed, and somebody may go on.
extern "C" unsigned eas_sim_run_slice(Launch* l, unsigned slice_ms) {
  Worker* w = take_worker();
  if (!w) return 1;
  if (l->checks_registers && !map_registers(w)) { return_worker(w); return 1; }
  begin_launch(w, l);
  unsigned total = l->groups[0] * l->groups[1] * l->groups[2];
  unsigned before = set_flush_mode(l->config.flush_subnormals ? 1 : 2);
  Launch* outer = set_running(l);
  long end = now_ms() + slice_ms;
  bool is_over = false;
  while (!__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE) && !(is_over = slice_ms && now_ms() > end)) {
    unsigned index = __atomic_fetch_add(&l->next_group, 1, __ATOMIC_RELAXED);
    if (index >= total) break;
    begin_group(w, index);
    run_group(w);
  }
  set_running(outer);
  set_flush_mode(before);
  return_worker(w);
  return is_over ? 2 : 0;
}

extern "C" unsigned eas_sim_run(Launch* l) { return eas_sim_run_slice(l, 0); }

// In a child after fork: a thread that is not there may have held the list.
extern "C" void eas_sim_after_fork() {
  if (__atomic_exchange_n(&workers_lock, 0, __ATOMIC_RELAXED)) idle_workers = nullptr;
}

extern "C" unsigned long eas_sim_launch_nbytes() { return sizeof(Launch); }
extern "C" unsigned long eas_sim_sanitizer_nbytes() { return sizeof(Sanitizer); }

// --- what kernels call ----------------------------------------------------------------------------

extern "C" Thread* eas_sim_self() { return current_fiber(); }

extern "C" const Config* eas_sim_config() { return &current_fiber()->worker->launch->config; }

extern "C" void eas_sim_barrier(unsigned scope, unsigned mem_flags, const void* site) {
  Fiber* f = current_fiber();
  Worker* w = f->worker;
  f->site = site ? site : __builtin_return_address(0);
  f->mem_flags = mem_flags;
  f->is_simd_barrier = scope == scope_simdgroup;
  if (scope == scope_simdgroup) {
    f->state = at_exchange;
    w->simdgroups[f->simdgroup].waiting |= 1u << f->lane;
  } else {
    f->state = at_barrier;
    w->n_arrived++;
  }
  wait(w, f);
}

extern "C" const unsigned char* eas_sim_exchange(const void* value, unsigned size, unsigned* active_mask, const void* site) {
  Fiber* f = current_fiber();
  Simdgroup& s = f->worker->simdgroups[f->simdgroup];
  memcpy(s.slots[s.parity] + f->lane * exchange_stride, value, size);
  f->site = site ? site : __builtin_return_address(0);
  registers_exchange(f, value, size, active_mask, f->site);
  f->is_simd_barrier = false;
  f->state = at_exchange;
  s.waiting |= 1u << f->lane;
  wait(f->worker, f);
  *active_mask = s.result_mask;
  return s.slots[s.result_parity];
}

extern "C" void* eas_sim_threadgroup(unsigned size, unsigned align, const void* key, unsigned id, unsigned is_zeroed) {
  Fiber* f = current_fiber();
  Worker* w = f->worker;
  for (unsigned i = 0; i < w->n_variables; i++)
    if (w->variables[i].key == key) return w->arena + w->variables[i].offset;
  unsigned end = ((w->arena_real + align - 1) & ~(align - 1)) + size;
  if (end > arena_nbytes || w->n_variables == max_variables) {
    Report r = about(threadgroup_memory, f, __builtin_return_address(0));
    r.size = end;
    abandon(f, r);
  }
  unsigned offset = take_arena(w, size, align);
  w->variables[w->n_variables++] = {key, id, offset, size, is_zeroed};
  if (is_zeroed) memset(w->arena + offset, 0, size);
  w->launch->static_nbytes = w->arena_real;
  return w->arena + offset;
}

extern "C" void eas_sim_fail(const char* message) {
  Fiber* f = current_fiber();
  Report r = about(failed, f, __builtin_return_address(0));
  r.text = message;
  abandon(f, r);
}
