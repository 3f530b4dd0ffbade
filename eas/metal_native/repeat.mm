// Repeated launches: a native launcher has read the arguments into a frame of words; what is left is to find their buffers and encode.
//
// `Entry.address` stands where the code of a CPU kernel would, `run_address` where the thread pool would: one launcher for all.
#include "eas_metal.h"

#include <string.h>

static PyTypeObject* entry_type;

enum { kRaised = 4, kRefused = 5 };  // what the launcher knows besides 0


struct Scalar {
    uint32_t slot, offset, nbytes;  // to the struct of constants
};

// Where a frame has what; see eas/runtime/native/launch_layout.py.
struct Layout {
    uint32_t n_args, ends, objects;
};

struct EntryObject {
    PyObject_HEAD
    PlanObject* plan;
    Layout layout;
    uint32_t slots[kSlots];
    uint32_t n_scalars, constants_nbytes;
    Scalar* scalars;
};

// Where the next launch of this thread goes.
struct Aim {
    Stream* stream;  // null: the default
    bool is_later;   // it is not waited for
};

static thread_local Aim aim;
static PyObject *default_stream, *teller;

PyObject* set_default(PyObject* module, PyObject* args) {
    PyObject *stream, *tell;
    if (!PyArg_ParseTuple(args, "O!O", stream_type, &stream, &tell)) return nullptr;
    PyObject* old[2] = {default_stream, teller};
    default_stream = Py_NewRef(stream);
    teller = Py_NewRef(tell);
    for (PyObject* each : old) Py_XDECREF(each);
    Py_RETURN_NONE;
}

PyObject* aimed(PyObject* module, PyObject* const* args, Py_ssize_t n) {
    if (n != 7 || Py_TYPE(args[0]) != stream_type) return PyErr_Format(PyExc_TypeError, "aimed(stream, is awaited, call, arguments, named, grid, is raw)");
    Aim before = aim;
    aim = {reinterpret_cast<StreamObject*>(args[0])->state, args[1] != Py_True};
    PyObject* found = PyObject_CallFunctionObjArgs(args[2], args[3], args[4], args[5], args[6], nullptr);
    aim = before;
    return found;
}

// Python's own words for what went wrong.
static int tell(const char* name, const char* kind, const char* text) {
    PyObject* none = PyObject_CallFunction(teller, "sss", name, kind, text);
    Py_XDECREF(none);
    return kRaised;
}

static int retold(const char* name) {
    if (!is_our_error()) return kRaised;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject* pair = PyObject_GetAttrString(value, "args");
    const char *kind = "internal", *text = "";
    if (pair) PyArg_ParseTuple(pair, "ss", &kind, &text);
    int rc = tell(name, kind, text);
    Py_XDECREF(pair);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return rc;
}

static int finish(const char* name, Stream* s, uint64_t number, uint64_t ticket) {
    @autoreleasepool {
        pthread_mutex_lock(&state_lock);
        flush_to(s, ticket);
        pthread_mutex_unlock(&state_lock);
    }
    if (wait_for(s, ticket)) return kRaised;
    pthread_mutex_lock(&state_lock);
    bool is_failed = has_failure(number);
    pthread_mutex_unlock(&state_lock);
    if (!is_failed) return 0;
    char text[32];
    PyOS_snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(number));
    return tell(name, "failed", text);
}

static bool fill(const EntryObject* e, const uint64_t* frame, Command* c, char* constants) {
    const PlanObject* p = e->plan;
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t begin = frame[e->slots[i]], nbytes = frame[e->layout.ends + e->slots[i]] - begin;
        BufferObject* buffer = nbytes ? buffer_at(begin, nbytes) : nullptr;
        if (!buffer) return false;
        // The object that was passed keeps the buffer from being given to somebody else.
        PyObject* object = reinterpret_cast<PyObject*>(frame[e->layout.objects + e->slots[i]]);
        c->bindings[i] = {buffer, object, begin - buffer->address, nbytes, p->is_written[i]};
    }
    memset(constants, 0, e->constants_nbytes);
    for (uint32_t i = 0; i < e->n_scalars; i++) memcpy(constants + e->scalars[i].offset, &frame[e->scalars[i].slot], e->scalars[i].nbytes);
    for (uint32_t i = 0; i < 3; i++) c->groups[i] = static_cast<uint32_t>(frame[e->layout.n_args + i]);
    memcpy(c->indices, p->indices, sizeof(uint32_t) * p->count);
    memcpy(c->threads, p->threads, sizeof c->threads);
    c->pipeline = p->pipeline;
    c->count = p->count;
    c->constants = constants;
    c->constants_nbytes = e->constants_nbytes;
    c->constants_index = p->constants_index;
    c->log = nullptr;
    c->owner = nullptr;
    return true;
}

// In place of the thread pool's function; runs with Python's lock.
static int run(const EntryObject* e, const uint64_t* frame, int64_t n, int64_t, int64_t, int64_t, void*, void*, int64_t) {
    Command c;
    alignas(16) char constants[kMaxConstant];
    if (!n) return 0;
    Stream* s = aim.stream ? aim.stream : default_stream ? reinterpret_cast<StreamObject*>(default_stream)->state : nullptr;
    if (!s || is_forked() || !fill(e, frame, &c, constants)) return kRefused;
    uint64_t number, ticket;
    const char* name = e->plan->pipeline->name;
    if (launch(s, &c, !aim.is_later, &number, &ticket)) return retold(name);
    return aim.is_later ? 0 : finish(name, s, number, ticket);
}

// --- the Python type ------------------------------------------------------------------------------

static bool read_entry(EntryObject* e, PyObject* slots, PyObject* scalars) {
    Py_ssize_t n = PyTuple_Size(scalars);
    if (PyTuple_Size(slots) != static_cast<Py_ssize_t>(e->plan->count) || e->constants_nbytes > kMaxConstant) {
        raise_error("use", "kernel %s cannot be repeated natively", e->plan->pipeline->name);
        return false;
    }
    for (uint32_t i = 0; i < e->plan->count; i++) e->slots[i] = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GetItem(slots, i)));
    e->scalars = static_cast<Scalar*>(PyMem_Calloc(static_cast<size_t>(n + 1), sizeof(Scalar)));
    for (; e->n_scalars < static_cast<uint32_t>(n); e->n_scalars++) {
        Scalar& s = e->scalars[e->n_scalars];
        if (!PyArg_ParseTuple(PyTuple_GetItem(scalars, e->n_scalars), "III", &s.slot, &s.offset, &s.nbytes)) return false;
    }
    return !PyErr_Occurred();
}

static PyObject* entry_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *plan, *slots, *scalars;
    Layout layout;
    unsigned constants_nbytes;
    if (!PyArg_ParseTuple(args, "O!O!O!I(III)", plan_type, &plan, &PyTuple_Type, &slots, &PyTuple_Type, &scalars, &constants_nbytes, &layout.n_args, &layout.ends, &layout.objects)) return nullptr;
    allocfunc alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    EntryObject* e = reinterpret_cast<EntryObject*>(alloc(type, 0));
    if (!e) return nullptr;
    e->plan = reinterpret_cast<PlanObject*>(Py_NewRef(plan));
    e->layout = layout;
    e->constants_nbytes = constants_nbytes;
    if (read_entry(e, slots, scalars)) return reinterpret_cast<PyObject*>(e);
    Py_DECREF(reinterpret_cast<PyObject*>(e));
    return nullptr;
}

static void entry_dealloc(PyObject* object) {
    EntryObject* e = reinterpret_cast<EntryObject*>(object);
    PyMem_Free(e->scalars);
    Py_XDECREF(reinterpret_cast<PyObject*>(e->plan));
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(self); }

static PyGetSetDef entry_fields[] = {
    {"address", get_address, nullptr, "What a launcher passes to `run_address`.", nullptr},
    {},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_doc, const_cast<char*>("Entry(plan, slots of buffers, ((slot, offset, nbytes), ...) of scalars, bytes of constants, (n_args, ends, objects)): a plan that reads a launcher's frame.")},
    {Py_tp_new, reinterpret_cast<void*>(entry_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(entry_dealloc)},
    {Py_tp_getset, entry_fields},
    {},
};

static PyType_Spec entry_spec = {"eas._metal.Entry", sizeof(EntryObject), 0, Py_TPFLAGS_DEFAULT, entry_slots};

int add_repeat(PyObject* module) {
    entry_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&entry_spec));
    PyObject* address = PyLong_FromVoidPtr(reinterpret_cast<void*>(run));
    if (!entry_type || !address || PyModule_AddObjectRef(module, "run_address", address)) return -1;
    Py_DECREF(address);
    return PyModule_AddType(module, entry_type);
}
