// The Python module `eas._metal`.
#include "eas_metal.h"

static PyMethodDef functions[] = {
    {"device_info", device_info, METH_NOARGS, "What the GPU says of itself, as a dict."},
    {"compile", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(compile)), METH_VARARGS | METH_KEYWORDS, "compile(source, name, language='3.1', math_mode='safe'): the pipeline of a kernel."},
    {"allocate", allocate, METH_VARARGS, "allocate(nbytes, private=False): a new buffer."},
    {"place_of", place_of, METH_VARARGS, "place_of(address, nbytes): the buffer that bytes lie in, their offset and number; or None."},
    {"set_default", set_default, METH_VARARGS, "set_default(stream, tell): where repeated launches go, and tell(kernel, kind, text), which raises what went wrong."},
    {"aimed", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(aimed)), METH_FASTCALL, "aimed(stream, is awaited, call, arguments, named, grid, is raw): call(arguments, named, grid, is raw) of a launcher, in a stream."},
    {"adopt", adopt, METH_VARARGS, "adopt(handle, owner): an MTLBuffer of somebody else."},
    {"take_failures", take_failures, METH_VARARGS, "take_failures(other threads, number=0, stream=-1): launches without a result that are told from now on, as (number, batch, root, kind, name, text)."},
    {"describe_failure", describe_failure, METH_VARARGS, "describe_failure(number): the same of one launch, or None."},
    {"wait_for_bytes", wait_for_bytes, METH_VARARGS, "wait_for_bytes(begin, end, is written): wait for the launches that a use by the processor comes after; the failed one that it depends on, or 0."},
    {"ask_for_times", ask_for_times, METH_VARARGS, "ask_for_times(asks): from now on, until it is called with False, each launch is timed alone."},
    {"take_times", take_times, METH_VARARGS, "take_times(of all): (kernel, seconds) of the launches of this thread, or of all, that have ended and were not taken."},
    {"wrap", wrap, METH_VARARGS, "wrap(address, nbytes, owner): whole pages of memory as a buffer, without a copy."},
    {},
};

static int fill(PyObject* module) {
    return add_errors(module) || add_memory(module) || add_library(module) || add_stream(module) || add_launch(module) || add_repeat(module) || add_graph(module) ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "eas._metal", "Metal for eas: devices, memory, pipelines, streams.", 0, functions, slots, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__metal(void) { return PyModuleDef_Init(&definition); }
