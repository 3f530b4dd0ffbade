// The sanitizer: kernels compiled with -fsanitize=thread,alignment,array-bounds call back here before
// each access. A launch with a sanitizer runs on one OS thread, one threadgroup after another, so what
// is found depends on the kernel and its arguments only: two accesses are ordered by barriers, never by luck.
#include "engine.h"

namespace eas_sim {

static constexpr unsigned atomic_flag = 1, device_space = 0, threadgroup_space = 1;
static constexpr unsigned dynamic_region = 1000, variable_region = 2000, no_region = ~0u;

struct Target { unsigned space, region; long long offset; Cell* cells; bool is_inside, is_zeroed; };

void sanitizer_begin_group(Worker* w) {
  Sanitizer* s = w->launch->sanitizer;
  if (!s) return;
  s->clock++;
  memset(s->fences, 0, sizeof s->fences);
  for (unsigned space = 0; space < 2; space++) {
    s->group_sync[space] = 0;
    for (unsigned i = 0; i < max_simdgroups; i++) s->simd_sync[i][space] = 0;
  }
}

// Accesses until now happen before those after the barrier, in the memory that its flags name.
void sanitizer_barrier(Fiber* f, unsigned scope, unsigned mem_flags) {
  Sanitizer* s = f->worker->launch->sanitizer;
  if (!s) return;
  s->clock++;
  for (unsigned space = 0; space < 2; space++) {
    if (!(mem_flags & (space == device_space ? mem_device_bit : mem_threadgroup_bit))) continue;
    (scope == scope_threadgroup ? s->group_sync[space] : s->simd_sync[f->simdgroup][space]) = s->clock;
  }
}

// --- reports --------------------------------------------------------------------------------------

static Report report(ErrorKind kind, const Fiber* f, const void* site) {
  Report r = {};
  r.kind = kind;
  r.region = no_region;
  r.thread = f->index_in_threadgroup;
  r.group = f->worker->group_index;
  r.other_thread = ~0u;
  r.site = site;
  return r;
}

// Keep a finding after which the kernel can go on; one per pair of places.
static void keep(Sanitizer* s, const Report& r) {
  for (unsigned i = 0; i < s->n_reports; i++) {
    const Report& known = s->reports[i];
    if (known.kind == r.kind && known.site == r.site && known.other_site == r.other_site) return;
    if (known.kind == r.kind && known.site == r.other_site && known.other_site == r.site) return;
  }
  if (s->n_reports < s->max_reports) s->reports[s->n_reports++] = r;
}

static void fill_access(Report& r, const Target& t, unsigned size, bool is_write, bool is_atomic) {
  r.region = t.region;
  r.offset = t.offset;
  r.size = size;
  r.is_write = is_write;
  r.is_atomic = is_atomic;
}

// --- where an address lies ------------------------------------------------------------------------

static Target in_device(Sanitizer* s, unsigned long address, unsigned size) {
  Target t = {device_space, no_region, 0, s->device_cells + ((address - s->device_start) >> s->granule_shift), false};
  unsigned long best = ~0ul;
  for (unsigned i = 0; i < s->n_regions; i++) {
    const Region& r = s->regions[i];
    unsigned long distance = address < r.start ? r.start - address : address < r.start + r.nbytes ? 0 : address - (r.start + r.nbytes) + 1;
    if (distance >= best) continue;
    best = distance;
    t.region = i;
    t.offset = (long long)(address - r.start);
    t.is_inside = distance == 0 && address + size <= r.start + r.nbytes;
  }
  return t;
}

static Target in_threadgroup(Worker* w, Sanitizer* s, unsigned long address, unsigned size) {
  unsigned at = address - (unsigned long)w->arena;
  Target t = {threadgroup_space, no_region, (long long)at, s->group_cells + (at >> s->granule_shift), false};
  unsigned best = ~0u;
  for (unsigned i = 0; i < max_slots + w->n_variables; i++) {
    bool is_slot = i < max_slots;
    unsigned start = is_slot ? (unsigned char*)w->slots[max_slots + i] - w->arena : w->variables[i - max_slots].offset;
    unsigned nbytes = is_slot ? w->launch->threadgroup_nbytes[i] : w->variables[i - max_slots].size;
    if (!nbytes) continue;
    unsigned distance = at < start ? start - at : at < start + nbytes ? 0 : at - (start + nbytes) + 1;
    if (distance >= best) continue;
    best = distance;
    t.region = is_slot ? dynamic_region + i : variable_region + w->variables[i - max_slots].id;
    t.offset = (long long)at - start;
    t.is_inside = distance == 0 && at + size <= start + nbytes;
    t.is_zeroed = !is_slot && w->variables[i - max_slots].is_zeroed;
  }
  return t;
}

static bool lies_in(unsigned long address, const void* start, unsigned long nbytes) {
  return address - (unsigned long)start < nbytes;
}

static Target locate(Worker* w, Sanitizer* s, unsigned long address, unsigned size) {
  if (address >= s->device_start && address < s->device_end) return in_device(s, address, size);
  if (lies_in(address, w->arena, arena_capacity)) return in_threadgroup(w, s, address, size);
  return {device_space, no_region, 0, nullptr, false};
}

// --- order ----------------------------------------------------------------------------------------

struct Now { Fiber* f; Sanitizer* s; unsigned group, space; };

static bool is_ordered(const Now& n, const Access& a, bool is_atomic) {
  if (!a.group || (is_atomic && (a.flags & atomic_flag))) return true;
  if (a.group != n.group) return n.space == threadgroup_space || passed_on(n.s, a, n.group, n.f->index_in_threadgroup);
  if (a.thread == n.f->index_in_threadgroup || a.clock < n.s->group_sync[n.space]) return true;
  return a.thread / 32 == n.f->simdgroup && a.clock < n.s->simd_sync[n.f->simdgroup][n.space];
}

static void race_with(const Now& n, const Target& t, const Access& a, bool a_is_write, const void* site, unsigned size, bool is_write, bool is_atomic) {
  Report r = report(race, n.f, site);
  fill_access(r, t, size, is_write, is_atomic);
  r.other_thread = a.thread;
  r.other_group = a.group - 1;
  r.other_is_write = a_is_write;
  r.other_site = (const void*)(n.s->code_start + a.site);
  keep(n.s, r);
}

// Two readers are remembered, if possible of different simdgroups: a writer conflicts with one of them.
static void remember_read(Cell& c, const Access& now) {
  Access& last = c.reads[0];
  if (last.group == now.group && last.thread == now.thread) { last = now; return; }
  bool is_near = last.group == now.group && last.thread / 32 == now.thread / 32;
  bool other_is_far = c.reads[1].group == now.group && c.reads[1].thread / 32 != now.thread / 32 && c.reads[1].clock == now.clock;
  if (!(is_near && other_is_far)) c.reads[1] = last;
  last = now;
}

static void touch(const Now& n, const Target& t, Cell& c, const void* site, unsigned size, bool is_write, bool is_atomic) {
  if (!is_ordered(n, c.write, is_atomic)) race_with(n, t, c.write, true, site, size, is_write, is_atomic);
  Access now = {n.group, n.s->clock, (unsigned)((unsigned long)site - n.s->code_start), (unsigned short)n.f->index_in_threadgroup, (unsigned short)(is_atomic ? atomic_flag : 0)};
  if (!is_write) { remember_read(c, now); return; }
  for (const Access& a : c.reads)
    if (!is_ordered(n, a, is_atomic)) race_with(n, t, a, false, site, size, is_write, is_atomic);
  c.write = now;
}

// --- arguments that share memory -------------------------------------------------------------------

static void report_aliased(const Now& n, const Target& t, const Access& a, bool a_is_write, const void* site, unsigned size, bool is_write) {
  Report r = report(aliased, n.f, site);
  fill_access(r, t, size, is_write, false);
  r.other_thread = a.thread;
  r.other_group = a.group - 1;
  r.other_is_write = a_is_write;
  r.other_site = (const void*)(n.s->code_start + a.site);
  keep(n.s, r);
}

// The same place through another argument: ordered or not, a restrict argument's memory has one writer and no other
// reader, and what a const argument shows stays as it was at the start of the kernel.
static void check_partner(const Now& n, const Target& t, const Cell& c, const Region& mine, const Region& other, const void* site, unsigned size, bool is_write, bool is_atomic) {
  bool is_restrict = mine.is_restrict || other.is_restrict;
  if (!is_ordered(n, c.write, is_atomic)) race_with(n, t, c.write, true, site, size, is_write, is_atomic);
  else if (c.write.group && (is_restrict || (mine.is_const && !is_write))) report_aliased(n, t, c.write, true, site, size, is_write);
  if (!is_write) return;
  for (const Access& a : c.reads) {
    if (!is_ordered(n, a, is_atomic)) race_with(n, t, a, false, site, size, is_write, is_atomic);
    else if (a.group && is_restrict) report_aliased(n, t, a, false, site, size, is_write);
  }
}

static void check_partners(const Now& n, const Target& t, unsigned long address, const void* site, unsigned size, bool is_write, bool is_atomic) {
  const Region& mine = n.s->regions[t.region];
  unsigned long origin = address - mine.start + mine.origin;
  for (unsigned i = 0; i < n.s->n_regions; i++) {
    const Region& other = n.s->regions[i];
    if (i == t.region || other.block != mine.block) continue;
    for (unsigned at = 0; at < size; at += 1u << n.s->granule_shift) {
      unsigned long offset = origin + at - other.origin;
      if (offset >= other.nbytes) continue;
      check_partner(n, t, n.s->device_cells[(other.start + offset - n.s->device_start) >> n.s->granule_shift], mine, other, site, size, is_write, is_atomic);
    }
  }
}

// --- one access -----------------------------------------------------------------------------------

static void check_granules(const Now& n, const Target& t, const void* site, unsigned size, bool is_write, bool is_atomic, bool may_be_padded) {
  unsigned count = size >> n.s->granule_shift;
  for (unsigned i = 0; i < count; i++) {
    Cell& c = t.cells[i];
    if (n.space == threadgroup_space && c.write.group != n.group) {
      bool is_padding = may_be_padded && i == 3 && count == 4;       // a float3 is copied as 16 bytes
      if (!is_write && !is_padding && !t.is_zeroed) {
        Report r = report(uninitialised, n.f, site);
        fill_access(r, t, size, is_write, is_atomic);
        keep(n.s, r);
      }
    }
    touch(n, t, c, site, size, is_write, is_atomic);
  }
}

static void access(const volatile void* pointer, unsigned long size, bool is_write, bool is_atomic, bool may_be_padded, const void* site) {
  unsigned long address = (unsigned long)pointer;
  Fiber* f = current_fiber();
  Worker* w = f->worker;
  Sanitizer* s = w->launch->sanitizer;
  if (lies_in(address, f->stack, stack_nbytes) || !size) return;
  if (lies_in(address, w, sizeof(Worker)) || lies_in(address, w->launch, sizeof(Launch))) return;      // our own structures
  if (!is_write && lies_in(address, (void*)s->code_start, s->code_nbytes)) return;                      // constants
  // The word around a narrow last element may reach past the end: buffers are padded to whole words.
  Target t = locate(w, s, address, is_atomic ? 1 : size);
  if (!t.is_inside) {
    Report r = report(out_of_bounds, f, site);
    fill_access(r, t, size, is_write, is_atomic);
    abandon(f, r);
  }
  unsigned long fine = (1ul << s->granule_shift) - 1;
  if ((address | size) & fine && !(is_atomic && address & (size - 1))) {
    Report r = report(needs_finer, f, site);
    r.size = (address | size) & 1 ? 0 : 1;
    abandon(f, r);
  }
  if (is_atomic && address & (size - 1)) {
    Report r = report(misaligned, f, site);
    fill_access(r, t, size, is_write, is_atomic);
    r.text = "an atomic";
    abandon(f, r);
  }
  Now n = {f, s, w->group_index + 1, t.space};
  if (t.space == device_space && s->regions[t.region].block) check_partners(n, t, address, site, size, is_write, is_atomic);
  check_granules(n, t, site, size, is_write, is_atomic, may_be_padded);
  if (is_atomic && t.space == device_space) note_atomic(s, address, n.group, f->index_in_threadgroup);
}

}  // namespace eas_sim

using namespace eas_sim;

// --- what instrumented code calls -----------------------------------------------------------------

#define HERE __builtin_return_address(0)

extern "C" {

void eas_sim_atomic(const volatile void* address, unsigned size, unsigned is_write) {
  if (current_fiber()->worker->launch->sanitizer) access(address, size, is_write, true, false, HERE);
}

void eas_sim_fence(unsigned mem_flags) {
  Fiber* f = current_fiber();
  Sanitizer* s = f->worker->launch->sanitizer;
  if (s && mem_flags & mem_device_bit) note_fence(s, f->index_in_threadgroup);
}

void eas_sim_wrong_index(unsigned long index, const char* what) {
  Fiber* f = current_fiber();
  Report r = report(private_bounds, f, HERE);
  r.offset = (long long)index;
  r.text = what;
  abandon(f, r);
}

void eas_sim_divergent_matrix(const char* function) {
  Fiber* f = current_fiber();
  if (!f->worker->launch->sanitizer) return;
  Report r = report(divergent_matrix, f, HERE);
  r.text = function;
  abandon(f, r);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define ACCESS(N) \
  void __tsan_read##N(void* p) { access(p, N, false, false, false, HERE); } \
  void __tsan_write##N(void* p) { access(p, N, true, false, false, HERE); } \
  void __tsan_unaligned_read##N(void* p) { access(p, N, false, false, false, HERE); } \
  void __tsan_unaligned_write##N(void* p) { access(p, N, true, false, false, HERE); } \
  void __tsan_volatile_read##N(void* p) { access(p, N, false, false, false, HERE); } \
  void __tsan_volatile_write##N(void* p) { access(p, N, true, false, false, HERE); } \
  void __tsan_read_write##N(void* p) { access(p, N, false, false, false, HERE); access(p, N, true, false, false, HERE); } \
  void __tsan_unaligned_read_write##N(void* p) { access(p, N, false, false, false, HERE); access(p, N, true, false, false, HERE); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)

void __tsan_read_range(void* p, unsigned long n) { access(p, n, false, false, true, HERE); }
void __tsan_write_range(void* p, unsigned long n) { access(p, n, true, false, true, HERE); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

void* __tsan_memcpy(void* to, const void* from, unsigned long n) {
  access(from, n, false, false, true, HERE);
  access(to, n, true, false, true, HERE);
  return memcpy(to, from, n);
}
void* __tsan_memmove(void* to, const void* from, unsigned long n) {
  access(from, n, false, false, true, HERE);
  access(to, n, true, false, true, HERE);
  return memmove(to, from, n);
}
void* __tsan_memset(void* to, int value, unsigned long n) {
  access(to, n, true, false, true, HERE);
  return memset(to, value, n);
}

// The records that clang passes to the handlers of -fsanitize=alignment,array-bounds.
struct SourceLocation { const char* file; unsigned line, column; };
struct TypeDescriptor { unsigned short kind, info; char name[1]; };
struct TypeMismatch { SourceLocation location; const TypeDescriptor* type; unsigned char log_alignment, check; };
struct IndexOutOfBounds { SourceLocation location; const TypeDescriptor *array, *index; };

static void wrong_type(const TypeMismatch* d, unsigned long address, const void* site) {
  Fiber* f = current_fiber();
  Report r = report(misaligned, f, site);
  Target t = locate(f->worker, f->worker->launch->sanitizer, address, 1);
  r.region = t.region;
  r.offset = t.offset;
  r.size = 1u << d->log_alignment;
  r.text = d->type->name;
  abandon(f, r);
}
static void wrong_index(const IndexOutOfBounds* d, unsigned long index, const void* site) {
  Fiber* f = current_fiber();
  Report r = report(private_bounds, f, site);
  r.offset = (long long)index;
  r.text = d->array->name;
  abandon(f, r);
}
void __ubsan_handle_type_mismatch_v1(TypeMismatch* d, unsigned long address) { wrong_type(d, address, HERE); }
void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* d, unsigned long address) { wrong_type(d, address, HERE); }
void __ubsan_handle_out_of_bounds(IndexOutOfBounds* d, unsigned long index) { wrong_index(d, index, HERE); }
void __ubsan_handle_out_of_bounds_abort(IndexOutOfBounds* d, unsigned long index) { wrong_index(d, index, HERE); }

}  // extern "C"
