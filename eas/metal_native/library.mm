// Metal text as pipelines.
#include "eas_metal.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject* pipeline_type;

// By number: SDKs do not name the levels that came after them. Which ones this system has is Python's to know.
static constexpr NSUInteger version_of(char major, char minor) { return (static_cast<NSUInteger>(major - '0') << 16) + static_cast<NSUInteger>(minor - '0'); }
static_assert(version_of('3', '1') == MTLLanguageVersion3_1, "the level is not made of major and minor any more");

static bool is_version(const char* text) { return strlen(text) == 3 && text[0] >= '0' && text[0] <= '9' && text[1] == '.' && text[2] >= '0' && text[2] <= '9'; }

static MTLCompileOptions* options_for(const char* language, const char* math_mode) {
    MTLCompileOptions* options = [MTLCompileOptions new];
    options.languageVersion = static_cast<MTLLanguageVersion>(version_of(language[0], language[2]));
    bool is_fast = !strcmp(math_mode, "fast");
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
    if (@available(macOS 15.0, *)) {
        options.mathMode = is_fast ? MTLMathModeFast : strcmp(math_mode, "safe") ? MTLMathModeRelaxed : MTLMathModeSafe;
        options.mathFloatingPointFunctions = is_fast ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;
        return options;
    }
#endif
    options.fastMathEnabled = is_fast;
    return options;
}

// The pipeline of a kernel, or nil with its error; an error beside a library is its warnings. Runs without the GIL, for compilers take their time.
static id<MTLComputePipelineState> built(id<MTLDevice> gpu, NSString* source, NSString* name, MTLCompileOptions* options, NSError* __strong* told) {
    NSError *error = nil, *warnings = nil;
    id<MTLComputePipelineState> state = nil;
    id<MTLLibrary> library = [gpu newLibraryWithSource:source options:options error:&warnings];
    id<MTLFunction> function = [library newFunctionWithName:name];
    if (function) state = [gpu newComputePipelineStateWithFunction:function error:&error];
    *told = state || !function ? warnings : error;
    return state;
}

PyObject* compile(PyObject* module, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"source", "name", "language", "math_mode", nullptr};
    const char *source, *name, *language = "3.1", *math_mode = "safe";
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ss|ss", const_cast<char**>(names), &source, &name, &language, &math_mode)) return nullptr;
    if (!is_version(language)) return raise_error("use", "a language level is a text such as 3.1, not %s", language);
    @autoreleasepool {
        id<MTLDevice> gpu = the_device();
        if (!gpu) return nullptr;
        NSString* text = [NSString stringWithUTF8String:source];
        NSString* kernel = [NSString stringWithUTF8String:name];
        MTLCompileOptions* options = options_for(language, math_mode);
        NSError* error = nil;
        id<MTLComputePipelineState> state;
        PyThreadState* others = PyEval_SaveThread();
        state = built(gpu, text, kernel, options, &error);
        PyEval_RestoreThread(others);
        if (!state) return raise_ns_error("compile", error, name);
        PipelineObject* self = PyObject_New(PipelineObject, pipeline_type);
        if (!self) return nullptr;
        self->state = (__bridge_retained void*)state;
        self->name = copied(name);
        self->warnings = copied(error ? error.localizedDescription.UTF8String : "");
        return reinterpret_cast<PyObject*>(self);
    }
}

static void pipeline_dealloc(PyObject* object) {
    PipelineObject* self = reinterpret_cast<PipelineObject*>(object);
    if (!is_forked()) {
        @autoreleasepool {
            (void)(__bridge_transfer id)self->state;
        }
    }
    free(self->name);
    free(self->warnings);
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static id<MTLComputePipelineState> state_of(PyObject* self) { return (__bridge id<MTLComputePipelineState>)reinterpret_cast<PipelineObject*>(self)->state; }
static PyObject* get_name(PyObject* self, void*) { return PyUnicode_FromString(reinterpret_cast<PipelineObject*>(self)->name); }
static PyObject* get_warnings(PyObject* self, void*) { return PyUnicode_FromString(reinterpret_cast<PipelineObject*>(self)->warnings); }
static PyObject* get_max_threads(PyObject* self, void*) { return PyLong_FromUnsignedLong(state_of(self).maxTotalThreadsPerThreadgroup); }
static PyObject* get_width(PyObject* self, void*) { return PyLong_FromUnsignedLong(state_of(self).threadExecutionWidth); }
static PyObject* get_static(PyObject* self, void*) { return PyLong_FromUnsignedLong(state_of(self).staticThreadgroupMemoryLength); }

static PyGetSetDef pipeline_fields[] = {
    {"name", get_name, nullptr, "The kernel.", nullptr},
    {"warnings", get_warnings, nullptr, "What the compiler said of a text that it took.", nullptr},
    {"max_threads", get_max_threads, nullptr, "Threads that a threadgroup of it may have.", nullptr},
    {"simd_width", get_width, nullptr, "Threads of a simdgroup.", nullptr},
    {"static_threadgroup_nbytes", get_static, nullptr, "Threadgroup memory of its variables.", nullptr},
    {},
};

static PyType_Slot pipeline_slots[] = {
    {Py_tp_doc, const_cast<char*>("A compiled kernel.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(pipeline_dealloc)},
    {Py_tp_getset, pipeline_fields},
    {},
};

static PyType_Spec pipeline_spec = {"eas._metal.Pipeline", sizeof(PipelineObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, pipeline_slots};

int add_library(PyObject* module) {
    pipeline_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&pipeline_spec));
    return pipeline_type ? PyModule_AddType(module, pipeline_type) : -1;
}
