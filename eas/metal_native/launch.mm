// A prepared launch: what does not change from call to call is parsed once.
#include "eas_metal.h"

#include <string.h>

PyTypeObject* plan_type;

static bool read_slots(PlanObject* p, PyObject* slots) {
    Py_ssize_t n = PyTuple_Size(slots);
    if (n < 0 || n > kSlots) {
        if (!PyErr_Occurred()) raise_error("use", "a kernel has at most %d buffers, not %zd", kSlots, n);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int is_written;
        if (!PyArg_ParseTuple(PyTuple_GetItem(slots, i), "Ip", &p->indices[i], &is_written)) return false;
        p->is_written[i] = is_written;
    }
    p->count = static_cast<uint32_t>(n);
    return true;
}

static PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *pipeline, *slots;
    unsigned constants_index, x, y, z;
    if (!PyArg_ParseTuple(args, "OO!I(III)", &pipeline, &PyTuple_Type, &slots, &constants_index, &x, &y, &z)) return nullptr;
    if (Py_TYPE(pipeline) != pipeline_type) return PyErr_Format(PyExc_TypeError, "expected an eas._metal.Pipeline");
    allocfunc alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PlanObject* p = reinterpret_cast<PlanObject*>(alloc(type, 0));
    if (!p) return nullptr;
    p->pipeline = reinterpret_cast<PipelineObject*>(Py_NewRef(pipeline));
    p->constants_index = constants_index;
    p->threads[0] = x;
    p->threads[1] = y;
    p->threads[2] = z;
    if (read_slots(p, slots)) return reinterpret_cast<PyObject*>(p);
    Py_DECREF(reinterpret_cast<PyObject*>(p));
    return nullptr;
}

static void plan_dealloc(PyObject* object) {
    Py_XDECREF(reinterpret_cast<PyObject*>(reinterpret_cast<PlanObject*>(object)->pipeline));
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static bool read_memory(const PlanObject* p, PyObject* memory, Command* c) {
    if (PyTuple_Size(memory) != static_cast<Py_ssize_t>(p->count)) {
        raise_error("use", "kernel %s has %u buffers, not %zd", p->pipeline->name, p->count, PyTuple_Size(memory));
        return false;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        PyObject* buffer;
        unsigned long long offset, nbytes;
        if (!PyArg_ParseTuple(PyTuple_GetItem(memory, i), "O!KK", buffer_type, &buffer, &offset, &nbytes)) return false;
        BufferObject* b = reinterpret_cast<BufferObject*>(buffer);
        if (offset + nbytes > static_cast<uint64_t>(b->nbytes)) {
            raise_error("use", "kernel %s: %llu bytes from %llu on are not in a buffer of %zd", p->pipeline->name, nbytes, offset, b->nbytes);
            return false;
        }
        c->bindings[i] = {b, buffer, offset, nbytes, p->is_written[i]};
        c->indices[i] = p->indices[i];
    }
    return true;
}

bool fill_command(const PlanObject* p, PyObject* memory, const char* constants, Py_ssize_t constants_nbytes, Command* c) {
    if (constants_nbytes > kMaxConstant) {
        raise_error("use", "kernel %s has %zd bytes of scalars; Metal takes %d", p->pipeline->name, constants_nbytes, kMaxConstant);
        return false;
    }
    c->pipeline = p->pipeline;
    c->count = p->count;
    c->constants = constants;
    c->constants_nbytes = static_cast<uint32_t>(constants_nbytes);
    c->constants_index = p->constants_index;
    memcpy(c->threads, p->threads, sizeof c->threads);
    return read_memory(p, memory, c);
}

int launch(Stream* stream, const Command* c, bool is_awaited, uint64_t* number, uint64_t* ticket) {
    int rc = encode(stream, c, number, ticket);
    if (rc != 1) return rc;
    if (!is_awaited) {
        *number = refuse(stream, c, *number);
        *ticket = 0;
        return 0;
    }
    raise_error("dependency", "%llu", static_cast<unsigned long long>(*number));
    return -1;
}

static PyObject* plan_call(PyObject* object, PyObject* args, PyObject*) {
    PlanObject* p = reinterpret_cast<PlanObject*>(object);
    PyObject *stream, *memory;
    const char* constants;
    Py_ssize_t constants_nbytes;
    int is_awaited;
    unsigned long long log = 0;
    Command c{};
    if (!PyArg_ParseTuple(args, "O!O!y#(III)pO|K", stream_type, &stream, &PyTuple_Type, &memory, &constants, &constants_nbytes, &c.groups[0], &c.groups[1], &c.groups[2], &is_awaited, &c.owner, &log)) return nullptr;
    if (!fill_command(p, memory, constants, constants_nbytes, &c)) return nullptr;
    c.log = reinterpret_cast<const volatile uint32_t*>(log);
    uint64_t number, ticket;
    if (launch(reinterpret_cast<StreamObject*>(stream)->state, &c, is_awaited, &number, &ticket)) return nullptr;
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(number), static_cast<unsigned long long>(ticket));
}

static PyType_Slot plan_slots[] = {
    {Py_tp_doc, const_cast<char*>("Plan(pipeline, ((index, is_written), ...), constants index, threads): a prepared launch. plan(stream, ((buffer, offset, nbytes), ...), constants, grid, is awaited, owner, log address=0) gives the number of the launch and its ticket.")},
    {Py_tp_new, reinterpret_cast<void*>(plan_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(plan_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(plan_call)},
    {},
};

static PyType_Spec plan_spec = {"eas._metal.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT, plan_slots};

int add_launch(PyObject* module) {
    plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plan_spec));
    return plan_type ? PyModule_AddType(module, plan_type) : -1;
}
