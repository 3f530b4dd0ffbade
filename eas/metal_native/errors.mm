// Errors of Metal as `eas._metal.Error(kind, text)`.
#include "eas_metal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PyObject* error_type;

int add_errors(PyObject* module) {
    error_type = PyErr_NewExceptionWithDoc("eas._metal.Error", "What Metal refused or failed to do: args are (kind, text).", nullptr, nullptr);
    return error_type ? PyModule_AddObjectRef(module, "Error", error_type) : -1;
}

PyObject* raise_error(const char* kind, const char* format, ...) {
    char text[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    PyObject* pair = Py_BuildValue("(ss)", kind, text);
    if (pair) PyErr_SetObject(error_type, pair);
    Py_XDECREF(pair);
    return nullptr;
}

bool is_our_error(void) { return PyErr_ExceptionMatches(error_type); }

PyObject* raise_ns_error(const char* kind, NSError* error, const char* kernel) {
    const char* text = error ? error.localizedDescription.UTF8String : "Metal gave no reason";
    return kernel ? raise_error(kind, "kernel %s: %s", kernel, text) : raise_error(kind, "%s", text);
}

const char* kind_of_code(NSInteger code) {
    switch (code) {
        case MTLCommandBufferErrorTimeout: return "timeout";
        case MTLCommandBufferErrorPageFault: return "fault";
        case MTLCommandBufferErrorAccessRevoked: return "ignored";
        case MTLCommandBufferErrorOutOfMemory: return "memory";
        case MTLCommandBufferErrorDeviceRemoved: return "removed";
        default: return "internal";
    }
}

char* copied(const char* text) {
    size_t n = strlen(text) + 1;
    return static_cast<char*>(memcpy(malloc(n), text, n));
}
