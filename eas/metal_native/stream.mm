// `eas._metal.Stream`: one queue of commands, as Python sees it.
#include "eas_metal.h"

PyTypeObject* stream_type;

static Stream* state_of(PyObject* self) { return reinterpret_cast<StreamObject*>(self)->state; }

static PyObject* stream_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"max_in_flight", "max_ops", "max_nbytes", "max_seconds", nullptr};
    unsigned in_flight = 64, ops = 40;
    unsigned long long nbytes = 40ull << 20;
    double seconds = 0.002;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|IIKd", const_cast<char**>(names), &in_flight, &ops, &nbytes, &seconds)) return nullptr;
    @autoreleasepool {
        allocfunc alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
        StreamObject* self = reinterpret_cast<StreamObject*>(alloc(type, 0));
        if (!self) return nullptr;
        self->state = new_stream(in_flight, ops, nbytes, seconds);
        if (self->state) return reinterpret_cast<PyObject*>(self);
        Py_DECREF(reinterpret_cast<PyObject*>(self));
        return nullptr;
    }
}

static void stream_dealloc(PyObject* object) {
    if (state_of(object) && !is_forked()) {  // in a child after fork, Metal and its locks are the parent's
        @autoreleasepool {
            let_go(state_of(object));
        }
    }
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

struct Locked {
    const bool is_ours = !is_forked();  // a child after fork must not wait for a thread that it does not have
    Locked() {
        if (is_ours) pthread_mutex_lock(&state_lock);
    }
    ~Locked() {
        if (is_ours) pthread_mutex_unlock(&state_lock);
    }
};

static uint64_t last_ticket(const Stream* s) {
    Locked locked;
    return s->open && !s->open->n_ops ? s->ticket - 1 : s->ticket;
}

static PyObject* flush(PyObject* self, PyObject* none) {
    if (!is_usable()) return nullptr;
    @autoreleasepool {
        uint64_t ticket = last_ticket(state_of(self));
        {
            Locked locked;
            flush_to(state_of(self), ticket);
        }
        release_garbage();
        return PyLong_FromUnsignedLongLong(ticket);
    }
}

static PyObject* wait(PyObject* self, PyObject* args) {
    unsigned long long ticket = UINT64_MAX;
    if (!PyArg_ParseTuple(args, "|K", &ticket) || !is_usable()) return nullptr;
    @autoreleasepool {
        Stream* s = state_of(self);
        uint64_t last = last_ticket(s);
        if (ticket > last) ticket = last;
        {
            Locked locked;
            flush_to(s, ticket);
        }
        if (wait_for(s, ticket)) return nullptr;
        Py_RETURN_NONE;
    }
}

static PyObject* wait_on_gpu(PyObject* self, PyObject* args) {
    PyObject* other;
    unsigned long long ticket;
    if (!PyArg_ParseTuple(args, "O!K", stream_type, &other, &ticket)) return nullptr;
    if (ticket > last_ticket(state_of(other))) return raise_error("use", "the other stream has no command buffer %llu", ticket);
    if (encode_wait(state_of(self), state_of(other), ticket)) return nullptr;
    Py_RETURN_NONE;
}

static BufferObject* buffer_arg(PyObject* object) {
    if (Py_TYPE(object) == buffer_type) return reinterpret_cast<BufferObject*>(object);
    PyErr_SetString(PyExc_TypeError, "expected an eas._metal.Buffer");
    return nullptr;
}

static PyObject* copy(PyObject* self, PyObject* args) {
    PyObject *source, *target;
    unsigned long long from, to, nbytes;
    if (!PyArg_ParseTuple(args, "OKOKK", &source, &from, &target, &to, &nbytes)) return nullptr;
    BufferObject *a = buffer_arg(source), *b = a ? buffer_arg(target) : nullptr;
    if (!b) return nullptr;
    if (from + nbytes > static_cast<uint64_t>(a->nbytes) || to + nbytes > static_cast<uint64_t>(b->nbytes)) return raise_error("use", "a copy of %llu bytes does not fit its buffers", nbytes);
    uint64_t number, ticket;
    int rc = encode_copy(state_of(self), a, from, b, to, nbytes, &number, &ticket);
    if (rc == 1) return raise_error("dependency", "%llu", static_cast<unsigned long long>(number));
    if (rc) return nullptr;
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(number), static_cast<unsigned long long>(ticket));
}

static PyObject* get_index(PyObject* self, void*) { return PyLong_FromUnsignedLong(state_of(self)->index); }
static PyObject* get_ticket(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(last_ticket(state_of(self))); }

static uint64_t completed(const Stream* s) {
    Locked locked;
    return s->completed;
}

static PyObject* get_completed(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(completed(state_of(self))); }

static PyObject* get_statistics(PyObject* self, void*) {
    unsigned long long counts[4];
    double seconds;
    {
        Locked locked;
        const Stream* s = state_of(self);
        counts[0] = s->n_barriers;
        counts[1] = s->n_commits;
        counts[2] = s->n_waits;
        counts[3] = s->n_in_flight;
        seconds = s->gpu_seconds;
    }
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:d}", "barriers", counts[0], "commits", counts[1], "waits", counts[2], "in_flight", counts[3], "gpu_seconds", seconds);
}

static PyMethodDef stream_methods[] = {
    {"flush", flush, METH_NOARGS, "Commit what was encoded; the ticket of the last command buffer with commands."},
    {"wait", wait, METH_VARARGS, "Wait for a ticket, or for everything; what failed is for take_failures."},
    {"wait_on_gpu", wait_on_gpu, METH_VARARGS, "wait_on_gpu(stream, ticket): what comes later in this stream waits for another one."},
    {"copy", copy, METH_VARARGS, "copy(source, from, target, to, nbytes): a copy on the GPU, of multiples of 4; the number of the launch and its ticket."},
    {},
};

static PyGetSetDef stream_fields[] = {
    {"index", get_index, nullptr, "Which of the streams of this process it is.", nullptr},
    {"ticket", get_ticket, nullptr, "The number of the command buffer with the last command.", nullptr},
    {"completed", get_completed, nullptr, "The number of the last command buffer that has completed.", nullptr},
    {"statistics", get_statistics, nullptr, "Barriers, commits, waits for other streams, command buffers in flight, seconds of GPU time.", nullptr},
    {},
};

static PyType_Slot stream_slots[] = {
    {Py_tp_doc, const_cast<char*>("Commands that run in the order of their hazards.")},
    {Py_tp_new, reinterpret_cast<void*>(stream_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(stream_dealloc)},
    {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_fields},
    {},
};

static PyType_Spec stream_spec = {"eas._metal.Stream", sizeof(StreamObject), 0, Py_TPFLAGS_DEFAULT, stream_slots};

int add_stream(PyObject* module) {
    stream_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&stream_spec));
    return stream_type ? PyModule_AddType(module, stream_type) : -1;
}
