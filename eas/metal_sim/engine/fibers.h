// Stacks and the context switch.
#pragma once
#include "engine.h"

// Keep the callee-saved registers on this stack, its pointer in *save, and go on where `load` was saved.
extern "C" void eas_sim_switch(void** save, void* load);

namespace eas_sim {

// `count` stacks side by side with guard pages, or null; the pages that nobody touches cost nothing.
unsigned char* map_stacks(unsigned count);

// A stack pointer at which eas_sim_switch enters `function(argument)` on that stack.
void* prepare_stack(void* stack, unsigned number, void (*function)(void*), void* argument);

}  // namespace eas_sim
