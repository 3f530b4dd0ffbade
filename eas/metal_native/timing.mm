// Times of single launches. Metal tells when a command buffer began and ended: while somebody asks for times, each launch has one of its own.
#include "eas_metal.h"

#include <stdlib.h>

struct Timing {
    Timing* next;
    unsigned long thread;
    char* name;
    double seconds;
};

static uint32_t n_askers;
static Timing *timings, **last = &timings;  // until they are taken; the lock guards them

bool is_timed(void) { return __atomic_load_n(&n_askers, __ATOMIC_RELAXED); }

void note_time(const Launch* launch, double seconds) {
    Timing* t = static_cast<Timing*>(calloc(1, sizeof(Timing)));
    t->thread = launch->thread;
    t->name = copied(launch->name);
    t->seconds = seconds;
    *last = t;
    last = &t->next;
}

// Takes those of a thread (0: all) out of the list.
static Timing* take(unsigned long thread) {
    Timing *taken = nullptr, **end = &taken, **at = &timings;
    while (Timing* t = *at) {
        if (thread && t->thread != thread) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = nullptr;
        *end = t;
        end = &t->next;
    }
    last = at;
    return taken;
}

static Timing* freed(Timing* t) {
    Timing* next = t->next;
    free(t->name);
    free(t);
    return next;
}

PyObject* ask_for_times(PyObject* module, PyObject* args) {
    int asks;
    if (!PyArg_ParseTuple(args, "p", &asks) || !is_usable()) return nullptr;
    pthread_mutex_lock(&state_lock);
    n_askers += asks ? 1u : -1u;
    Timing* unwanted = n_askers ? nullptr : take(0);
    pthread_mutex_unlock(&state_lock);
    while (unwanted) unwanted = freed(unwanted);
    Py_RETURN_NONE;
}

PyObject* take_times(PyObject* module, PyObject* args) {
    int is_of_all;
    if (!PyArg_ParseTuple(args, "p", &is_of_all) || !is_usable()) return nullptr;
    pthread_mutex_lock(&state_lock);
    Timing* found = take(is_of_all ? 0 : PyThread_get_thread_ident());
    pthread_mutex_unlock(&state_lock);
    PyObject* list = PyList_New(0);
    for (; found; found = freed(found)) {
        PyObject* pair = list ? Py_BuildValue("(sd)", found->name, found->seconds) : nullptr;
        if (pair && PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    if (list && PyErr_Occurred()) Py_CLEAR(list);
    return list;
}
