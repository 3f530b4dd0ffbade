// The GPU of this machine, opened once.
#include "eas_metal.h"

static id<MTLDevice> device;
static bool is_child;  // set by fork; to ask for the process each time would be a call of the system

static void note_fork(void) { is_child = device != nil; }

bool is_forked(void) { return is_child; }

bool is_usable(void) {
    if (!is_forked()) return true;
    raise_error("use", "Metal cannot be used in a child after fork: start processes with the method \"spawn\"");
    return false;
}

id<MTLDevice> the_device(void) {
    if (!is_usable()) return nil;
    if (!device) {
        device = MTLCreateSystemDefaultDevice();
        if (!device) {  // command-line tools without a window server
            NSArray<id<MTLDevice>>* all = MTLCopyAllDevices();
            if (all.count) device = [all objectAtIndex:0];
        }
        pthread_atfork(nullptr, nullptr, note_fork);
    }
    if (!device) raise_error("use", "this machine has no GPU that Metal can use");
    return device;
}

static int newest_family(id<MTLDevice> gpu) {
    for (int n = 12; n >= 1; n--)  // Apple1 is 1001
        if ([gpu supportsFamily:static_cast<MTLGPUFamily>(1000 + n)]) return n;
    return 0;
}

PyObject* device_info(PyObject* module, PyObject* none) {
    @autoreleasepool {
        id<MTLDevice> gpu = the_device();
        if (!gpu) return nullptr;
        return Py_BuildValue(
            "{s:s,s:K,s:i,s:O,s:O,s:K,s:K,s:K,s:K}", "name", gpu.name.UTF8String, "registry_id", static_cast<unsigned long long>(gpu.registryID),
            "family", newest_family(gpu), "has_unified_memory", gpu.hasUnifiedMemory ? Py_True : Py_False, "is_headless",
            gpu.isHeadless ? Py_True : Py_False, "working_set_nbytes", static_cast<unsigned long long>(gpu.recommendedMaxWorkingSetSize),
            "max_buffer_nbytes", static_cast<unsigned long long>(gpu.maxBufferLength), "max_threadgroup_nbytes",
            static_cast<unsigned long long>(gpu.maxThreadgroupMemoryLength), "allocated_nbytes", static_cast<unsigned long long>(gpu.currentAllocatedSize));
    }
}
