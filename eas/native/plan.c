/* Executes launch plans (docs/design/0009-launch-plan.md): reads Python arguments as a plan says, finds the grid and the facts, runs the code.
 *
 * Everything here runs with the GIL held and only borrows what the caller's arguments hold; while the GIL is released, `launch_plan` holds a
 * reference of its own to the plan and to memory that an argument could lose. An argument is taken only if its type is exactly one of
 * those that a plan names, so no Python code of anybody runs. Anything else makes a launch refuse, before anything has happened. */
#include "plan.h"

enum { C_ORDER = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400, COPIES_BACK = 0x2000 }; /* NPY_ARRAY_* */
enum { STOPPED = 4, REFUSED = 5 };                                               /* what pool_run_fn gives beside 0 and lack of memory */

static const int64_t LARGEST = 0x7FFFFFFF;      /* extent of a grid, elements of a buffer that 32 bits count, stride */
static const double RELEASE_PICOSECONDS = 5e6; /* launches that took less than 5 us, and cannot take much more, keep the GIL */

/* NumPy's array on 64-bit CPython with a GIL; compared with what NumPy says before use (eas/launch/native_plan.py). */
struct array {
    int64_t refcount;
    PyTypeObject *type;
    uint64_t data;
    int32_t ndim;
    const int64_t *shape, *strides; /* in bytes */
    PyObject *base, *dtype;
    int32_t flags;
};

struct object {
    int64_t refcount;
    PyTypeObject *type;
};

struct tuple {
    struct object head;
    int64_t size;
    PyObject *items[];
};

/* The arguments of one call. */
struct given {
    PyObject *const *args;
    int64_t n;
    const struct tuple *names; /* of the values behind them; or */
    PyObject *named;           /* a dict */
    int64_t n_named;
    int is_raw; /* a tuple may stand for a buffer: `read_raw` */
};

/* A buffer as its owner describes it. */
struct memory {
    uint64_t data;
    int64_t ndim;
    const int64_t *shape, *strides;
    int64_t unit; /* a step of one element in strides: its bytes for NumPy, 1 for torch */
};

static PyTypeObject *type_of(const PyObject *object) { return ((const struct object *)object)->type; }

static PyObject *slot_of(const PyObject *object, int64_t at) { return *(PyObject *const *)((const char *)object + at); }

/* --- buffers ------------------------------------------------------------------------------------ */

/* Of strides in elements. */
static int is_c_order(const struct memory *m) {
    int64_t step = 1;
    for (int64_t k = m->ndim - 1; k >= 0; k--) {
        if (m->shape[k] != 1 && m->strides[k] != step)
            return 0;
        step *= m->shape[k];
    }
    return 1;
}

/* Elements from the first to the last of memory with gaps; -1 where Python has to look: steps back, or elements that share bytes and are written. */
static int64_t reach_of(const struct memory *m, int is_written) {
    int64_t steps[MAX_AXES], sizes[MAX_AXES], n = 0, last = 0;
    for (int64_t k = 0; k < m->ndim; k++) {
        if (m->shape[k] == 1)
            continue;
        int64_t step = m->strides[k] / m->unit, at = n++;
        for (; at > 0 && steps[at - 1] > step; at--) {
            steps[at] = steps[at - 1];
            sizes[at] = sizes[at - 1];
        }
        steps[at] = step;
        sizes[at] = m->shape[k];
    }
    for (int64_t i = 0; i < n; i++) {
        if (sizes[i] == 0 || steps[i] < 0 || (is_written && steps[i] <= last))
            return -1;
        int64_t more;
        if (__builtin_mul_overflow(sizes[i] - 1, steps[i], &more) || __builtin_add_overflow(last, more, &last))
            return -1;
    }
    return last + 1;
}

static int64_t size_of(const struct memory *m) {
    int64_t size = 1;
    for (int64_t k = 0; k < m->ndim; k++)
        size *= m->shape[k];
    return size;
}

/* A number that the kernel asks of a buffer; -1 where Python has to look. */
static int64_t answer_to(const struct asked *asked, const struct memory *m) {
    if (asked->kind == SIZE)
        return size_of(m);
    int64_t axis = asked->axis < 0 ? asked->axis + m->ndim : asked->axis;
    if (axis < 0 || axis >= m->ndim || (asked->ndim && asked->ndim != m->ndim))
        return -1;
    if (asked->kind == EXTENT)
        return m->shape[axis];
    if (asked->is_narrow) {
        int64_t last = 0;
        for (int64_t k = 0; k < m->ndim; k++)
            last += m->shape[k] > 1 ? (m->shape[k] - 1) * (m->strides[k] / m->unit) : 0;
        if (last > LARGEST)
            return -1;
    }
    int64_t step = m->strides[axis] / m->unit;
    return m->shape[axis] > 1 || step > 0 ? step : 0; /* along one element there is no step */
}

static int has_shape(const struct param *p, const struct memory *m) {
    if (p->ndim != m->ndim)
        return p->ndim < 0;
    for (int64_t k = 0; k < m->ndim; k++)
        if (p->shape[k] != m->shape[k])
            return 0;
    return 1;
}

static void put_number(const struct plan *plan, int64_t slot, int64_t word, struct frame *frame) {
    frame->slots[slot] = word;
    frame->slots[plan->n_args + 5 + slot] = 0;
    frame->ends[slot] = 0;
}

static void put_buffer(const struct plan *plan, const struct param *p, uint64_t data, int64_t elements, PyObject *object, struct frame *frame) {
    frame->slots[p->slot] = (int64_t)data;
    frame->slots[plan->n_args + 5 + p->slot] = elements;
    frame->ends[p->slot] = data + (uint64_t)(elements * p->nbytes);
    frame->objects[p->slot] = object;
}

static int read_memory(const struct plan *plan, const struct param *p, const struct memory *m, int is_plain, PyObject *object, struct frame *frame) {
    int64_t elements;
    if (m->ndim > MAX_AXES || !has_shape(p, m))
        return 0;
    if (is_plain) {
        elements = size_of(m);
    } else {
        for (int64_t k = 0; k < m->ndim; k++)
            if (m->strides[k] % m->unit)
                return 0;
        elements = p->is_strided ? reach_of(m, p->is_written != 0) : -1;
        if (elements < 0)
            return 0;
    }
    for (int64_t k = 0; k < p->n_asked; k++) {
        const struct asked *asked = &p->asked[k];
        int64_t found = answer_to(asked, m);
        if (found < 0 || found > LARGEST)
            return 0;
        put_number(plan, asked->slot, found, frame);
    }
    put_buffer(plan, p, m->data, elements, object, frame);
    return 1;
}

static int read_array(const struct plan *plan, const struct param *p, PyObject *object, struct frame *frame) {
    const struct array *array = (const struct array *)object;
    int32_t needed = ALIGNED | (p->is_written ? WRITEABLE : 0);
    if (array->dtype != p->expected || (array->flags & (needed | COPIES_BACK)) != needed)
        return 0;
    struct memory m = {array->data, array->ndim, array->shape, array->strides, p->nbytes};
    return read_memory(plan, p, &m, array->flags & C_ORDER, object, frame);
}

/* A torch tensor: exactly of torch's own classes, dense memory of the CPU, all of it there. */
static int read_torch(const struct plan *plan, const struct param *p, PyObject *object, struct frame *frame) {
    const struct world *w = plan->world;
    void *impl = slot_of(object, w->impl_at);
    if (!plan->on_host || !impl || *(uint64_t *)((char *)impl + w->keys_at) != w->plain_keys)
        return 0;
    int32_t dtype;
    int64_t ndim, offset, nbytes, *shape, *strides;
    void *data;
    if (w->torch_dtype(&impl, &dtype) || dtype != p->torch_dtype || (p->is_written && w->torch_requires_grad(impl)))
        return 0;
    if (w->torch_dim(&impl, &ndim) || w->torch_sizes(&impl, &shape) || w->torch_strides(&impl, &strides) || w->torch_offset(&impl, &offset) ||
        w->torch_storage_nbytes(&impl, &nbytes) || w->torch_data(&impl, &data) || !data)
        return 0;
    struct memory m = {(uint64_t)data, ndim, shape, strides, 1};
    if (m.data % (uint64_t)p->nbytes || !read_memory(plan, p, &m, is_c_order(&m), object, frame))
        return 0;
    /* A storage may have shrunk since. */
    if ((offset + frame->slots[plan->n_args + 5 + p->slot]) * p->nbytes > nbytes)
        return 0;
    if (p->is_written)
        frame->changed[frame->n_changed++] = impl;
    return 1;
}

/* An eas.Tensor with memory on the device of the plan. Who is told of writes is its array, or a torch tensor behind it. */
static int read_tensor(const struct plan *plan, const struct param *p, PyObject *object, struct frame *frame) {
    const struct world *w = plan->world;
    PyObject *memory = slot_of(object, w->memory_at), *owner = slot_of(object, w->owner_at), *device = slot_of(object, w->device_at);
    if (slot_of(object, w->dtype_at) != p->dtype || (device != plan->device && device != plan->private_device))
        return 0;
    if (!memory || !owner || type_of(memory) != w->ndarray || !read_array(plan, p, memory, frame))
        return 0;
    if (!p->is_written || type_of(owner) == w->ndarray)
        return 1;
    if (!w->torch_tensor || (type_of(owner) != w->torch_tensor && type_of(owner) != w->torch_parameter))
        return 0;
    void *impl = slot_of(owner, w->impl_at);
    if (!impl || *(uint64_t *)((char *)impl + w->keys_at) != w->plain_keys || w->torch_requires_grad(impl))
        return 0;
    frame->changed[frame->n_changed++] = impl;
    return 1;
}

/* A tuple of eas itself: the address, the elements, and what the kernel asks of the buffer. */
static int read_raw(const struct plan *plan, const struct param *p, PyObject *object, struct frame *frame) {
    int overflow;
    int64_t address = PyLong_AsLongLongAndOverflow(PyTuple_GetItem(object, 0), &overflow);
    if ((uint64_t)address % (uint64_t)p->nbytes || ((const struct tuple *)object)->size != 2 + p->n_asked)
        return 0;
    put_buffer(plan, p, (uint64_t)address, PyLong_AsLongLongAndOverflow(PyTuple_GetItem(object, 1), &overflow), object, frame);
    for (int64_t k = 0; k < p->n_asked; k++)
        put_number(plan, p->asked[k].slot, PyLong_AsLongLongAndOverflow(PyTuple_GetItem(object, 2 + k), &overflow), frame);
    return 1;
}

static int read_buffer(const struct plan *plan, const struct param *p, PyObject *object, int is_raw, struct frame *frame) {
    const struct world *w = plan->world;
    PyTypeObject *type = type_of(object);
    if (type == w->ndarray)
        return p->takes_arrays && read_array(plan, p, object, frame);
    if (type == w->tensor)
        return read_tensor(plan, p, object, frame);
    if (w->torch_tensor && (type == w->torch_tensor || type == w->torch_parameter))
        return read_torch(plan, p, object, frame);
    return is_raw && type == w->tuple && read_raw(plan, p, object, frame);
}

/* --- numbers ------------------------------------------------------------------------------------ */

static int64_t bits_of(double value) {
    union { double value; int64_t bits; } both = {value};
    return both.bits;
}

static int64_t short_bits_of(float value) {
    union { float value; uint32_t bits; } both = {value};
    return both.bits;
}

/* An int, float or bool, exactly, in the width that the kernel was compiled for. */
static int read_number(const struct plan *plan, const struct param *p, PyObject *object, struct frame *frame) {
    const struct world *w = plan->world;
    int64_t word;
    switch (p->kind) {
    case INT32:
    case INT64:
    case ANY_INT64: {
        int overflow;
        if (type_of(object) != w->int_)
            return 0;
        word = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (overflow || (p->kind != ANY_INT64 && (word == (int32_t)word) != (p->kind == INT32)))
            return 0;
        break;
    }
    case FLOAT32:
    case FLOAT64: {
        if (type_of(object) != w->float_)
            return 0;
        double value = PyFloat_AsDouble(object);
        word = p->kind == FLOAT64 ? bits_of(value) : short_bits_of((float)value);
        break;
    }
    default:
        if (object != w->true_ && object != w->false_)
            return 0;
        word = object == w->true_;
    }
    put_number(plan, p->slot, word, frame);
    return 1;
}

/* Whether two objects are ints of one value, or floats of the same bits. */
static int are_equal_numbers(const struct world *w, PyObject *one, PyObject *other) {
    int overflow, other_overflow;
    if (type_of(one) != type_of(other))
        return 0;
    if (type_of(one) == w->float_)
        return bits_of(PyFloat_AsDouble(one)) == bits_of(PyFloat_AsDouble(other));
    if (type_of(one) != w->int_)
        return 0;
    int64_t value = PyLong_AsLongLongAndOverflow(one, &overflow), other_value = PyLong_AsLongLongAndOverflow(other, &other_overflow);
    return !overflow && !other_overflow && value == other_value;
}

/* --- a call ------------------------------------------------------------------------------------- */

/* The argument of that name among the keywords, or NULL. */
static PyObject *named(const struct given *given, PyObject *name) {
    if (given->named)
        return PyDict_GetItemWithError(given->named, name);
    for (int64_t i = 0; i < given->n_named; i++)
        if (given->names->items[i] == name)
            return given->args[given->n + i];
    return 0;
}

/* Reads every parameter from its position, its name or its default; each keyword must be used. */
static int read_arguments(const struct plan *plan, const struct given *given, int64_t n_used, struct frame *frame) {
    if (given->n > plan->n_positional)
        return 0;
    for (int64_t i = 0; i < plan->n_params; i++) {
        const struct param *p = &plan->params[i];
        PyObject *object = i < given->n ? given->args[i] : n_used < given->n_named ? named(given, p->name) : 0;
        if (i >= given->n)
            n_used += object != 0;
        object = object ? object : p->fallback;
        if (!object)
            return 0;
        if (p->kind == BUFFER) {
            if (!read_buffer(plan, p, object, given->is_raw, frame))
                return 0;
        } else if (p->kind == CONSTANT) {
            if (object != p->expected && !are_equal_numbers(plan->world, object, p->expected))
                return 0;
        } else if (!read_number(plan, p, object, frame)) {
            return 0;
        }
    }
    for (int64_t i = 0; i < plan->n_fixed; i++)
        put_number(plan, plan->fixed[i].slot, plan->fixed[i].value, frame);
    return n_used == given->n_named;
}

/* Whether what the kernel and its launch read from outside is what it was; 2 if that took Python code, which may have done anything. */
static int guards_hold(const struct plan *plan) {
    int holds = 1;
    for (int64_t i = 0; i < plan->n_guards; i++) {
        const struct guard *g = &plan->guards[i];
        if (g->kind == DICT_ITEM) {
            if (PyDict_GetItemWithError(g->object, g->a) != g->b)
                return 0;
        } else if (g->kind == CELL) {
            PyObject *content = PyCell_Get(g->object);
            Py_DecRef(content);
            if (!content || content != g->a)
                return 0;
        } else if (g->kind == CALLED) {
            PyObject *answer = PyObject_CallNoArgs(g->object);
            Py_DecRef(answer);
            if (answer != plan->world->true_)
                return 0;
            holds = 2;
        } else if (PyFunction_GetCode(g->object) != g->a || PyFunction_GetDefaults(g->object) != g->b || PyFunction_GetKwDefaults(g->object) != g->c) {
            return 0;
        }
    }
    return holds;
}

/* The number of programs; -1 where Python has to look at the grid. */
static int64_t find_grid(const struct plan *plan, PyObject *grid, struct frame *frame) {
    const struct world *w = plan->world;
    int64_t count = 1, n_items = 0;
    if (grid == w->none) {
        if (!plan->can_infer)
            return -1;
    } else if (type_of(grid) == w->int_) {
        n_items = 1;
    } else {
        n_items = type_of(grid) == w->tuple ? ((const struct tuple *)grid)->size : 0;
        if (n_items < 1 || n_items > 3)
            return -1;
    }
    for (int64_t i = 0; i < 3; i++) {
        const struct axis *axis = &plan->axes[i];
        int64_t extent = 1;
        if (!n_items) {
            int64_t length = axis->slot < 0 ? 0 : frame->slots[axis->slot];
            if (length < 0)
                return -1;
            extent = axis->slot < 0 ? axis->count : (int64_t)(((uint64_t)length + (uint64_t)axis->block - 1) / (uint64_t)axis->block);
        } else if (i < n_items) {
            int overflow;
            PyObject *item = type_of(grid) == w->int_ ? grid : ((const struct tuple *)grid)->items[i];
            if (type_of(item) != w->int_)
                return -1;
            extent = PyLong_AsLongLongAndOverflow(item, &overflow);
            if (overflow)
                return -1;
        }
        if (extent < 0 || extent > LARGEST || __builtin_mul_overflow(count, extent, &count))
            return -1;
        frame->grid[i] = extent;
    }
    return count;
}

/* 0 if no written buffer shares a byte with another one, 1 if those that do start together, else 2. */
static int overlaps(const struct plan *plan, uint64_t written, const struct frame *frame) {
    int found = 0;
    for (int64_t w = 0; w < plan->n_args; w++) {
        if (!(written >> w & 1))
            continue;
        uint64_t begin = (uint64_t)frame->slots[w], end = frame->ends[w];
        for (int64_t b = 0; b < plan->n_args; b++) {
            uint64_t other = (uint64_t)frame->slots[b];
            if (b == w || begin >= frame->ends[b] || other >= end)
                continue;
            if (begin != other)
                return 2;
            found = 1;
        }
    }
    return found;
}

static int all_fit_32(const struct plan *plan, const struct frame *frame) {
    for (int64_t i = 0; i < plan->n_args; i++)
        if (frame->slots[plan->n_args + 5 + i] > LARGEST)
            return 0;
    return 1;
}

/* Bit k is set if fact k of the plan holds of this call. */
static uint64_t facts_of(const struct plan *plan, const struct frame *frame) {
    uint64_t bits = 0;
    for (int64_t k = 0; k < plan->n_facts; k++) {
        const struct fact *f = &plan->facts[k];
        int64_t word = frame->slots[f->slot];
        uint64_t holds = 0;
        switch (f->kind) {
        case EQUALS: holds = word == f->number; break;
        case POSITIVE: holds = word > 0; break;
        case DIVISIBLE_16: holds = word % 16 == 0; break;
        case ALIGNED_64: holds = word % 64 == 0; break;
        case DISJOINT: holds = overlaps(plan, f->written, frame) == 0; break;
        case IN_PLACE: holds = overlaps(plan, f->written, frame) == 1; break;
        case FITS_32: holds = all_fit_32(plan, frame) != 0; break;
        }
        bits |= holds << k;
    }
    return bits;
}

/* Fills the frame; the number of programs, or -1 to refuse, and the variant or NULL where its code is not known yet. */
static int64_t interpret(const struct plan *plan, const struct given *given, int64_t n_used, PyObject *grid, struct frame *frame, const struct variant **variant) {
    frame->n_changed = 0;
    *variant = 0;
    if (!read_arguments(plan, given, n_used, frame))
        return -1;
    int holds = guards_hold(plan);
    frame->n_changed = holds == 2 ? 0 : frame->n_changed;
    if (!holds || (holds == 2 && !read_arguments(plan, given, n_used, frame)))
        return -1;
    int64_t count = find_grid(plan, grid, frame);
    if (count < 0)
        return -1;
    frame->facts = facts_of(plan, frame);
    for (int64_t i = 0; i < plan->n_variants; i++)
        if (plan->variants[i].facts == frame->facts)
            *variant = &plan->variants[i];
    for (int i = 0; i < 3; i++)
        frame->slots[plan->n_args + i] = frame->grid[i];
    return count;
}

/* --- running ------------------------------------------------------------------------------------ */

static int is_short(const struct variant *v, int64_t count) {
    int64_t rate = __atomic_load_n(v->rate, __ATOMIC_RELAXED);
    return rate && (uint64_t)count <= (uint64_t)v->max_programs && (double)rate * (double)count <= RELEASE_PICOSECONDS;
}

/* Runs the code while somebody else may hold the GIL; what an argument could lose meanwhile is held. */
static int run_released(const struct plan *plan, const struct variant *v, struct frame *frame, int64_t count) {
    for (int64_t i = 0; i < plan->n_params; i++)
        if (plan->params[i].kind == BUFFER)
            Py_IncRef(frame->objects[plan->params[i].slot]);
    PyThreadState *state = PyEval_SaveThread();
    int status = plan->run(v->code, frame, count, 0, plan->n_threads, v->scratch_nbytes, v->rate, 0, v->max_programs);
    PyEval_RestoreThread(state);
    for (int64_t i = 0; i < plan->n_params; i++)
        if (plan->params[i].kind == BUFFER)
            Py_DecRef(frame->objects[plan->params[i].slot]);
    return status;
}

static PyObject *tell(const struct plan *plan, const struct frame *frame) {
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)frame->record, (const char *)frame->objects - (const char *)frame->record);
    if (!bytes)
        return 0;
    PyObject *answer = PyObject_CallOneArg(plan->on_error, bytes);
    Py_DecRef(bytes);
    return answer;
}

/* The answer of the call, NULL with an error, or NotImplemented (a new reference) if nothing has happened. */
static PyObject *launch_plan(const struct plan *plan, const struct given *given, int64_t n_used, PyObject *grid) {
    const struct world *w = plan->world;
    struct frame frame;
    const struct variant *v;
    PyObject *answer = w->not_implemented, *owner = plan->owner;
    Py_IncRef(owner);
    int64_t count = __atomic_load_n(plan->pending, __ATOMIC_ACQUIRE) ? -1 : interpret(plan, given, n_used, grid, &frame, &v);
    if (count < 0 || !v) {
        PyErr_Clear();
        Py_IncRef(answer);
        Py_DecRef(owner);
        return answer;
    }
    for (int i = 0; i < 5; i++)
        frame.record[i] = 0;
    frame.slots[plan->n_args + 3] = (int64_t)frame.record;
    frame.slots[plan->n_args + 4] = 0;
    int status = is_short(v, count) ? plan->run(v->code, &frame, count, 0, plan->n_threads, v->scratch_nbytes, v->rate, 0, v->max_programs)
                                    : run_released(plan, v, &frame, count);
    if (status == 0) {
        for (int64_t i = 0; i < frame.n_changed; i++)
            w->torch_bump(&frame.changed[i]);
        answer = plan->answer < 0 || plan->answer >= given->n ? w->none : given->args[plan->answer];
        if (plan->answer >= given->n)
            answer = named(given, plan->params[plan->answer].name);
        Py_IncRef(answer);
        if (*(int32_t *)frame.record) {
            Py_DecRef(answer);
            answer = tell(plan, &frame);
        }
    } else if (status == REFUSED) {
        Py_IncRef(answer);
    } else {
        answer = status == STOPPED ? 0 : PyErr_NoMemory();
    }
    Py_DecRef(owner);
    return answer;
}

/* What a function of Python is given: the tuple, the dict and the grid of a call, and whether memory may be raw. */
static const struct plan *unpack(PyObject *self, PyObject *const *argv, int64_t argc, struct given *given) {
    const struct plan *plan = PyLong_AsVoidPtr(((const struct tuple *)self)->items[0]);
    if (argc < 3 || argc > 4 || type_of(argv[0]) != plan->world->tuple || type_of(argv[1]) != plan->world->dict)
        return 0;
    const struct tuple *args = (const struct tuple *)argv[0];
    *given = (struct given){args->items, args->size, 0, argv[1], PyDict_Size(argv[1]), argc == 4 && argv[3] == plan->world->true_};
    return plan;
}

/* `call(args, kwargs, grid)` of one plan: a METH_FASTCALL function whose `self` is (address of the plan, its owner). */
PyObject *eas_plan_launch(PyObject *self, PyObject *const *argv, int64_t argc) {
    struct given given;
    const struct plan *plan = unpack(self, argv, argc, &given);
    if (plan)
        return launch_plan(plan, &given, 0, argv[2]);
    PyObject *refused = ((const struct plan *)PyLong_AsVoidPtr(((const struct tuple *)self)->items[0]))->world->not_implemented;
    Py_IncRef(refused);
    return refused;
}

/* `read(args, kwargs, grid)`: the frame of such a launch as bytes, for comparison with Python's reading of the plan; NotImplemented if it would refuse. */
PyObject *eas_plan_read(PyObject *self, PyObject *const *argv, int64_t argc) {
    struct given given;
    struct frame frame;
    const struct variant *v;
    const struct plan *plan = unpack(self, argv, argc, &given);
    if (!plan || interpret(plan, &given, 0, argv[2], &frame, &v) < 0) {
        PyObject *refused = ((const struct plan *)PyLong_AsVoidPtr(((const struct tuple *)self)->items[0]))->world->not_implemented;
        PyErr_Clear();
        Py_IncRef(refused);
        return refused;
    }
    return PyBytes_FromStringAndSize((const char *)&frame, sizeof frame);
}

/* --- callable objects --------------------------------------------------------------------------- */

/* Calls `otherwise(self, *args, **kwargs)`. */
static PyObject *call_python(struct callable *self, PyObject *const *args, int64_t n, PyObject *names) {
    int64_t total = n + (names ? ((const struct tuple *)names)->size : 0);
    PyObject *few[MAX_ARGS + 1], **all = total <= MAX_ARGS ? few : PyMem_Malloc((size_t)(total + 1) * sizeof *all);
    if (!all)
        return PyErr_NoMemory();
    all[0] = (PyObject *)self;
    for (int64_t i = 0; i < total; i++)
        all[i + 1] = args[i];
    PyObject *answer = PyObject_Vectorcall(self->otherwise, all, (uint64_t)(n + 1), names);
    if (all != few)
        PyMem_Free(all);
    return answer;
}

/* Shows the error that is set to `tell(self, error)`. */
static void tell_python(struct callable *self) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback)
        PyException_SetTraceback(error, traceback);
    PyObject *both[] = {(PyObject *)self, error}, *answer = PyObject_Vectorcall(self->tell, both, 2, 0);
    if (!answer)
        PyErr_Clear();
    Py_DecRef(answer);
    Py_DecRef(traceback);
    PyErr_Restore(type, error, PyException_GetTraceback(error));
}

/* The vectorcall of an object with a table: the first plan that fits, or Python. */
PyObject *eas_plan_call(struct callable *self, PyObject *const *args, uint64_t nargsf, PyObject *names) {
    struct table *table = self->table;
    const struct world *w = table->world;
    int64_t n = (int64_t)(nargsf << 1 >> 1), n_used = 0; /* the highest bit is PY_VECTORCALL_ARGUMENTS_OFFSET */
    struct given given = {args, n, (const struct tuple *)names, 0, names ? ((const struct tuple *)names)->size : 0, 0};
    PyObject *grid = self->grid ? self->grid : w->none;
    if (given.n_named) {
        PyObject *asked = named(&given, table->grid_name);
        if (asked && self->grid)
            return call_python(self, args, n, names); /* which refuses a second grid */
        grid = asked ? asked : grid;
        n_used = asked != 0;
    }
    if (!PySet_Size(table->readers) && !((const struct tuple *)table->special)->size) {
        for (int64_t i = 0; i < table->n_plans; i++) {
            const struct plan *plan = table->plans[i];
            PyObject *answer = launch_plan(plan, &given, n_used, grid);
            if (answer != w->not_implemented) {
                if (answer && i && i < table->n_plans && table->plans[i] == plan) {
                    table->plans[i] = table->plans[0]; /* the next call is probably like this one */
                    table->plans[0] = plan;
                }
                if (!answer)
                    tell_python(self);
                return answer;
            }
            Py_DecRef(answer);
        }
    }
    return call_python(self, args, n, names);
}
