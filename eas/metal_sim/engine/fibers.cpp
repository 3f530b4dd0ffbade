// Stacks and the context switch: x86-64 and aarch64, System V calling conventions.
#include "fibers.h"

// eas_sim_switch(save, load): keep the callee-saved registers on the stack, its pointer in *save, and go on at `load`.
#if defined(__x86_64__)
asm(R"(
.text
.globl eas_sim_switch
.hidden eas_sim_switch
.type eas_sim_switch,@function
eas_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size eas_sim_switch, .-eas_sim_switch
.globl eas_sim_enter
.hidden eas_sim_enter
.type eas_sim_enter,@function
eas_sim_enter:
  movq %rbx, %rdi
  callq *%r12
  ud2
.size eas_sim_enter, .-eas_sim_enter
)");
constexpr unsigned n_saved = 6, saved_argument = 4, saved_function = 3, saved_return = 6, frame_words = 9;
#elif defined(__aarch64__)
asm(R"(
.text
.globl eas_sim_switch
.hidden eas_sim_switch
.type eas_sim_switch,%function
eas_sim_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size eas_sim_switch, .-eas_sim_switch
.globl eas_sim_enter
.hidden eas_sim_enter
.type eas_sim_enter,%function
eas_sim_enter:
  mov x0, x19
  blr x20
  brk #1
.size eas_sim_enter, .-eas_sim_enter
)");
constexpr unsigned n_saved = 20, saved_argument = 0, saved_function = 1, saved_return = 11, frame_words = 22;
#else
#error "the software Metal has context switches for x86-64 and aarch64 only"
#endif

extern "C" void eas_sim_enter();

namespace eas_sim {

unsigned char* map_stacks(unsigned count) {
  constexpr int read_write = 3, none = 0, private_anonymous_noreserve = 0x2 | 0x20 | 0x4000;
  unsigned long size = (count + 1ul) * stack_nbytes;
  unsigned char* start = (unsigned char*)mmap(nullptr, size, read_write, private_anonymous_noreserve, -1, 0);
  if (start == (unsigned char*)-1) return nullptr;
  start = (unsigned char*)(((unsigned long)start + stack_nbytes - 1) & ~(stack_nbytes - 1));
  for (unsigned i = 0; i < count; i++) mprotect(start + i * stack_nbytes + page_nbytes, page_nbytes, none);
  return start;
}

void* prepare_stack(void* stack, unsigned number, void (*function)(void*), void* argument) {
  // Tops at different places within a page: at equal ones all stacks would share a few cache sets.
  unsigned long top = (unsigned long)stack + stack_nbytes - (number % 32) * 128 - 64;
  // frame_words also leaves the stack aligned to 16 bytes where eas_sim_enter begins.
  void** sp = (void**)(top & ~63ul) - frame_words;
  for (unsigned i = 0; i < n_saved; i++) sp[i] = nullptr;
  sp[saved_argument] = argument;
  sp[saved_function] = (void*)function;
  sp[saved_return] = (void*)eas_sim_enter;
  return sp;
}

}  // namespace eas_sim
