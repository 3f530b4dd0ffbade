// Launches without a result: what failed, what depended on it, and who has to be told.
//
// A failure stays until its thread has been told, as on the CPU: meanwhile every launch that touches what it should have
// written fails, too. Once told it stays until launches that were made before that have completed.
#include "eas_metal.h"

#include <stdlib.h>
#include <string.h>

struct Failure {
    Failure* next;
    uint64_t number, batch, root;
    uint64_t told_at;  // launches until then may depend on it; 0: nobody was told
    unsigned long thread;
    int stream;
    const char* kind;
    char *name, *text;
    uint32_t n_spans;
    Span* spans;     // that it should have written
    Launch* launch;  // keeps that memory until somebody was told; then null
};

static Failure *failures, **last = &failures;

uint64_t root_of(const Failure* failure) { return failure->root; }

const Failure* failure_before(const Span* spans, uint32_t n, uint64_t number) {
    for (const Failure* f = failures; f; f = f->next) {
        if (f->number >= number || (f->told_at && number > f->told_at)) continue;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < f->n_spans; k++)
                if (spans[i].begin < f->spans[k].end && f->spans[k].begin < spans[i].end) return f;
    }
    return nullptr;
}

void note_failure(Launch* launch, uint64_t batch, const char* kind, const char* text, uint64_t root) {
    Failure* f = static_cast<Failure*>(calloc(1, sizeof(Failure)));
    f->number = launch->number;
    f->batch = batch;
    f->root = root;
    f->thread = launch->thread;
    f->stream = launch->stream;
    f->kind = kind;
    f->name = copied(launch->name);
    f->text = copied(text);
    f->spans = static_cast<Span*>(malloc(sizeof(Span) * (launch->n_spans + 1)));
    for (uint32_t i = 0; i < launch->n_spans; i++)
        if (launch->spans[i].is_written) f->spans[f->n_spans++] = launch->spans[i];
    f->launch = launch;
    *last = f;
    last = &f->next;
}

bool has_failure(uint64_t number) {
    for (const Failure* f = failures; f; f = f->next)
        if (f->number == number) return true;
    return false;
}

void forget_told(uint64_t oldest_launch) {
    Failure** at = &failures;
    while (Failure* f = *at) {
        if (!f->told_at || oldest_launch <= f->told_at) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        free(f->name);
        free(f->text);
        free(f->spans);
        free(f);
    }
    last = at;
}

// --- for Python -----------------------------------------------------------------------------------

// A copy of what Python is to know: nothing of Python is called while the lock is held.
struct Told {
    uint64_t number, batch, root;
    const char* kind;
    char *name, *text;
};

static Told copy_of(const Failure* f) { return {f->number, f->batch, f->root, f->kind, copied(f->name), copied(f->text)}; }

static PyObject* tuple_of(Told& t) {
    unsigned long long number = t.number, batch = t.batch, root = t.root;
    PyObject* made = Py_BuildValue("(KKKsss)", number, batch, root, t.kind, t.name, t.text);
    free(t.name);
    free(t.text);
    return made;
}

static bool is_among(unsigned long thread, const unsigned long* others, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++)
        if (others[i] == thread) return true;
    return false;
}

struct Asked {
    unsigned long* others;  // threads that will ask themselves
    Py_ssize_t n_others;
    unsigned long long number;  // only this launch; 0: any
    int stream;                 // only this one; -1: any
};

static bool is_asked(const Failure* f, const Asked& asked) {
    if (f->told_at || (asked.stream >= 0 && f->stream != asked.stream)) return false;
    return asked.number ? f->number == asked.number : !is_among(f->thread, asked.others, asked.n_others);
}

// What was asked for counts as told.
static PyObject* taken(const Asked& asked) {
    pthread_mutex_lock(&state_lock);
    uint32_t count = 0, capacity = 0;
    for (Failure* f = failures; f; f = f->next) capacity++;
    Told* found = static_cast<Told*>(malloc(sizeof(Told) * (capacity + 1)));
    for (Failure* f = failures; f; f = f->next) {
        if (!is_asked(f, asked)) continue;
        f->told_at = n_launches;
        found[count++] = copy_of(f);
        throw_away(f->launch);
        f->launch = nullptr;
    }
    pthread_mutex_unlock(&state_lock);
    release_garbage();
    PyObject* list = PyList_New(0);
    for (uint32_t i = 0; i < count; i++) {
        PyObject* one = tuple_of(found[i]);
        if (one && list) PyList_Append(list, one);
        Py_XDECREF(one);
    }
    free(found);
    if (list && PyErr_Occurred()) Py_CLEAR(list);
    return list;
}

PyObject* take_failures(PyObject* module, PyObject* args) {
    PyObject* others;
    Asked asked{nullptr, 0, 0, -1};
    if (!PyArg_ParseTuple(args, "O!|Ki", &PyTuple_Type, &others, &asked.number, &asked.stream) || !is_usable()) return nullptr;
    asked.n_others = PyTuple_Size(others);
    asked.others = static_cast<unsigned long*>(malloc(sizeof(unsigned long) * static_cast<size_t>(asked.n_others + 1)));
    for (Py_ssize_t i = 0; i < asked.n_others; i++) asked.others[i] = PyLong_AsUnsignedLong(PyTuple_GetItem(others, i));
    PyObject* found = PyErr_Occurred() ? nullptr : taken(asked);
    free(asked.others);
    return found;
}

PyObject* describe_failure(PyObject* module, PyObject* args) {
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "K", &number) || !is_usable()) return nullptr;
    Told told{};
    pthread_mutex_lock(&state_lock);
    for (const Failure* f = failures; f && !told.number; f = f->next)
        if (f->number == number) told = copy_of(f);
    pthread_mutex_unlock(&state_lock);
    if (told.number) return tuple_of(told);
    Py_RETURN_NONE;
}

// The stream and ticket of a launch under way that must come before a use of these bytes, or null.
static Stream* user_of(const Span& span, uint64_t* ticket) {
    uint64_t tickets[kMaxStreams];
    if (!find_waits(nullptr, &span, 1, tickets)) return nullptr;
    uint32_t i = 0;
    while (!tickets[i]) i++;
    *ticket = tickets[i];
    flush_to(streams[i], tickets[i]);
    streams[i]->references++;  // while we wait for it
    return streams[i];
}

PyObject* wait_for_bytes(PyObject* module, PyObject* args) {
    unsigned long long begin, end;
    int is_written;
    if (!PyArg_ParseTuple(args, "KKp", &begin, &end, &is_written) || !is_usable()) return nullptr;
    Span span{begin, end, is_written != 0};
    @autoreleasepool {
        while (true) {
            uint64_t ticket;
            pthread_mutex_lock(&state_lock);
            Stream* s = user_of(span, &ticket);
            const Failure* failure = s ? nullptr : failure_before(&span, 1, n_launches + 1);
            unsigned long long root = failure ? failure->root : 0;
            pthread_mutex_unlock(&state_lock);
            if (!s) return PyLong_FromUnsignedLongLong(root);
            int rc = wait_for(s, ticket);
            pthread_mutex_lock(&state_lock);
            drop_reference(s);
            pthread_mutex_unlock(&state_lock);
            if (rc) return nullptr;
        }
    }
}
