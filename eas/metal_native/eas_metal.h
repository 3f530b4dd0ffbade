// What the parts of `eas._metal` know of each other: plain structs and functions. Policy stays in Python.
#pragma once
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#import <Metal/Metal.h>

enum { kSlots = 31, kMaxConstant = 4096 };

// --- errors.mm ------------------------------------------------------------------------------------

// `eas._metal.Error(kind, text)`: kind is one of "compile", "memory", "fault", "timeout", "removed", "ignored", "internal", "use".
PyObject* raise_error(const char* kind, const char* format, ...);
PyObject* raise_ns_error(const char* kind, NSError* error, const char* kernel);
const char* kind_of_code(NSInteger code);
int add_errors(PyObject* module);
// A copy of a text that free() takes.
char* copied(const char* text);

// --- device.mm ------------------------------------------------------------------------------------

// The GPU, or nil with a Python error.
id<MTLDevice> the_device(void);
PyObject* device_info(PyObject* module, PyObject* none);
// An error if this process is a child of the one that opened the device.
bool is_usable(void);

// --- memory.mm ------------------------------------------------------------------------------------

struct BufferObject {
    PyObject_HEAD
    void* buffer;       // id<MTLBuffer>, retained
    PyObject* owner;    // of memory that was there before, or null
    char* start;        // null in private storage
    uint64_t address;   // of the first byte, for hazards: memory of the process, or that of the GPU
    Py_ssize_t nbytes;
};

extern PyTypeObject* buffer_type;
PyObject* allocate(PyObject* module, PyObject* args);
PyObject* wrap(PyObject* module, PyObject* args);
PyObject* adopt(PyObject* module, PyObject* args);
int add_memory(PyObject* module);

// --- library.mm -----------------------------------------------------------------------------------

struct PipelineObject {
    PyObject_HEAD
    void* state;  // id<MTLComputePipelineState>, retained
    char* name;   // of the kernel
};

extern PyTypeObject* pipeline_type;
PyObject* compile(PyObject* module, PyObject* args, PyObject* kwargs);
int add_library(PyObject* module);

// --- stream.mm ------------------------------------------------------------------------------------

// Bytes that a command touches.
struct Span {
    uint64_t begin, end;
    bool is_written;
};

struct Binding {
    BufferObject* buffer;  // or null for constants
    uint64_t offset;
    uint64_t nbytes;
    bool is_written;
};

struct Command {
    PipelineObject* pipeline;
    Binding bindings[kSlots];
    uint32_t indices[kSlots];
    uint32_t count;
    const void* constants;
    uint32_t constants_nbytes, constants_index;  // no constants: 0 bytes
    uint32_t groups[3], threads[3];
};

struct StreamObject;
extern PyTypeObject* stream_type;
// Encode a command; 0, or -1 with a Python error.
int encode(StreamObject* stream, const Command* command);
int add_stream(PyObject* module);

// --- launch.mm ------------------------------------------------------------------------------------

int add_launch(PyObject* module);
