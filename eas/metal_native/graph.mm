// `eas._metal.Graph`: commands that are encoded again and again by one call. Barriers between them are found once.
#include "eas_metal.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject* graph_type;

enum { kChunk = 40, kMaxUnion = 64 };  // commands of one command buffer; spans that a graph as a whole has

struct GraphObject {
    PyObject_HEAD
    Command* commands;
    bool* has_barrier;
    uint32_t count;
    Span spans[kMaxUnion];  // of all commands
    uint32_t n_spans;
    char* name;
    PyObject* owner;        // of everything that the commands point to
};

// --- making one -----------------------------------------------------------------------------------

static void unite(GraphObject* g, const Span& span) {
    for (uint32_t i = 0; i < g->n_spans; i++) {
        Span& known = g->spans[i];
        if (span.is_written != known.is_written || span.begin > known.end || known.begin > span.end) continue;
        if (span.begin < known.begin) known.begin = span.begin;
        if (span.end > known.end) known.end = span.end;
        return;
    }
    if (g->n_spans < kMaxUnion) {
        g->spans[g->n_spans++] = span;
        return;
    }
    Span all = {span.begin, span.end, true};  // too many to tell apart: everything between the first and the last byte
    for (const Span& each : g->spans) {
        if (each.begin < all.begin) all.begin = each.begin;
        if (each.end > all.end) all.end = each.end;
    }
    g->spans[0] = all;
    g->n_spans = 1;
}

// Where barriers must stand between the commands of a command buffer.
static void find_barriers(GraphObject* g) {
    Stream scratch{};
    for (uint32_t i = 0; i < g->count; i++) {
        Span spans[kSlots];
        uint32_t n = spans_of(&g->commands[i], spans);
        if (i % kChunk == 0) scratch.n_spans = 0;
        g->has_barrier[i] = needs_barrier(&scratch, spans, n);
        for (uint32_t k = 0; k < n; k++) unite(g, spans[k]);
    }
}

static bool read_command(PyObject* row, Command* c) {
    PyObject *plan, *memory;
    const char* constants;
    Py_ssize_t nbytes;
    if (!PyArg_ParseTuple(row, "O!O!y#(III)", plan_type, &plan, &PyTuple_Type, &memory, &constants, &nbytes, &c->groups[0], &c->groups[1], &c->groups[2])) return false;
    return fill_command(reinterpret_cast<PlanObject*>(plan), memory, constants, nbytes, c);
}

static PyObject* graph_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *rows, *owner;
    const char* name;
    if (!PyArg_ParseTuple(args, "O!sO", &PyTuple_Type, &rows, &name, &owner)) return nullptr;
    allocfunc alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    GraphObject* g = reinterpret_cast<GraphObject*>(alloc(type, 0));
    if (!g) return nullptr;
    g->owner = Py_BuildValue("(OO)", rows, owner);
    g->name = copied(name);
    size_t n = static_cast<size_t>(PyTuple_Size(rows));
    g->commands = static_cast<Command*>(calloc(n + 1, sizeof(Command)));
    g->has_barrier = static_cast<bool*>(calloc(n + 1, sizeof(bool)));
    for (; g->count < n; g->count++)
        if (!read_command(PyTuple_GetItem(rows, g->count), &g->commands[g->count])) break;
    if (g->count == n && g->owner) {
        find_barriers(g);
        return reinterpret_cast<PyObject*>(g);
    }
    Py_DECREF(reinterpret_cast<PyObject*>(g));
    return nullptr;
}

static void graph_dealloc(PyObject* object) {
    GraphObject* g = reinterpret_cast<GraphObject*>(object);
    free(g->commands);
    free(g->has_barrier);
    free(g->name);
    Py_XDECREF(g->owner);
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

// --- replaying it ---------------------------------------------------------------------------------

static void encode_chunk(const GraphObject* g, uint32_t begin, uint32_t end, id<MTLComputeCommandEncoder> encoder) {
    const Command* before = nullptr;
    for (uint32_t i = begin; i < end; i++) {
        if (i > begin && g->has_barrier[i]) [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
        dispatch(encoder, &g->commands[i], before);
        before = &g->commands[i];
    }
}

static bool append(PyObject* list, uint64_t number) {
    PyObject* made = PyLong_FromUnsignedLongLong(number);
    bool is_done = made && !PyList_Append(list, made);
    Py_XDECREF(made);
    return is_done;
}

// Encodes the commands, one launch per command buffer, whose numbers go to a list; false with a Python error.
static bool replay(GraphObject* g, Stream* s, bool is_awaited, PyObject* numbers, uint64_t* ticket) {
    uint32_t chunk = is_timed() ? 1 : kChunk;
    for (uint32_t begin = 0; begin < g->count; begin += chunk) {
        uint32_t end = begin + chunk < g->count ? begin + chunk : g->count;
        Whole whole{chunk == 1 ? g->commands[begin].pipeline->name : g->name, g->spans, g->n_spans, reinterpret_cast<PyObject*>(g), end - begin, begin == 0};
        uint64_t number;
        int rc = encode_whole(s, whole, &number, ticket, ^(id<MTLComputeCommandEncoder> encoder) {
          encode_chunk(g, begin, end, encoder);
        });
        if (rc == 1 && is_awaited) raise_error("dependency", "%llu", static_cast<unsigned long long>(number));
        if (rc < 0 || (rc == 1 && is_awaited)) return false;
        if (rc == 1) return append(numbers, refuse_whole(s, whole, number));
        if (!append(numbers, number)) return false;
    }
    return true;
}

static PyObject* graph_call(PyObject* object, PyObject* args, PyObject*) {
    PyObject* stream;
    int is_awaited;
    if (!PyArg_ParseTuple(args, "O!p", stream_type, &stream, &is_awaited)) return nullptr;
    uint64_t ticket = 0;
    PyObject* numbers = PyList_New(0);
    if (numbers && replay(reinterpret_cast<GraphObject*>(object), reinterpret_cast<StreamObject*>(stream)->state, is_awaited, numbers, &ticket))
        return Py_BuildValue("(NK)", numbers, static_cast<unsigned long long>(ticket));
    Py_XDECREF(numbers);
    return nullptr;
}

static PyType_Slot graph_slots[] = {
    {Py_tp_doc, const_cast<char*>("Graph(((plan, memory, constants, grid), ...), name, owner): commands as one launch. graph(stream, is awaited) gives the numbers of its launches, one per command buffer, and the last ticket.")},
    {Py_tp_new, reinterpret_cast<void*>(graph_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(graph_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(graph_call)},
    {},
};

static PyType_Spec graph_spec = {"eas._metal.Graph", sizeof(GraphObject), 0, Py_TPFLAGS_DEFAULT, graph_slots};

int add_graph(PyObject* module) {
    graph_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&graph_spec));
    return graph_type ? PyModule_AddType(module, graph_type) : -1;
}
