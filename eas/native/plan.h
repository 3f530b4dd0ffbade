/* A launch plan as words of 8 bytes: the same structures, field by field, as in eas/launch/plan_words.py. */
#ifndef EAS_PLAN_H
#define EAS_PLAN_H

#include "cpython.h"
#include "pool.h"

enum { MAX_ARGS = 64, MAX_AXES = 32, MAX_PLANS = 16 };

enum { BUFFER, INT32, INT64, FLOAT32, BOOL, CONSTANT, FLOAT64, ANY_INT64 }; /* struct param, kind */
enum { STRIDE, EXTENT, SIZE };                                              /* struct asked, kind */
enum { DICT_ITEM, CELL, FUNCTION, CALLED };                                 /* struct guard, kind */
enum { EQUALS, POSITIVE, DIVISIBLE_16, ALIGNED_64, DISJOINT, FITS_32, IN_PLACE }; /* struct fact, kind */

/* A number about a buffer that nobody passes: a stride, an extent, the number of elements. */
struct asked {
    int64_t kind, axis;
    int64_t ndim;      /* axes that the buffer must have, or 0 */
    int64_t is_narrow; /* positions are computed from it in 32 bits */
    int64_t slot;
};

/* One parameter, in the order of the signature. */
struct param {
    int64_t kind;
    PyObject *name;     /* interned */
    PyObject *fallback; /* its default, or NULL */
    PyObject *expected; /* the value of a constant; the NumPy dtype of a buffer as it is in memory */
    int64_t slot;       /* among the arguments of the module; -1 for constants */
    int64_t nbytes;     /* of an element */
    int64_t is_written, is_strided; /* strided: the kernel asks for strides, so it sees memory with gaps itself */
    int64_t takes_arrays; /* NumPy has this dtype; else only tensors do, and arrays hold something else */
    PyObject *dtype;      /* of an eas.Tensor */
    int64_t torch_dtype;  /* of a torch tensor; -1: none has it */
    int64_t n_asked;
    const struct asked *asked;
    int64_t ndim; /* -1: any shape */
    const int64_t *shape;
};

struct guard {
    int64_t kind;
    PyObject *object, *a, *b, *c;
};

struct fact {
    int64_t kind, slot;
    uint64_t written; /* slots of buffers that the kernel writes */
    int64_t number;
};

/* The code for launches of which exactly these facts hold. */
struct variant {
    uint64_t facts;
    kernel_fn *code;
    int64_t scratch_nbytes;
    int64_t *rate;
    int64_t max_programs;
};

/* Programs of one axis: `count`, or the integer in `slot` over `block`, rounded up. */
struct axis {
    int64_t slot, count, block;
};

/* A word that no argument gives. */
struct fixed {
    int64_t slot, value;
};

/* What is the same for all plans of a process. */
struct world {
    PyTypeObject *ndarray, *int_, *float_, *tuple, *dict;
    PyObject *true_, *false_, *none, *not_implemented;
    PyTypeObject *tensor; /* eas.Tensor, or NULL before there is one; then bytes from it to its slots */
    int64_t memory_at, owner_at, dtype_at, device_at;
    PyTypeObject *torch_tensor, *torch_parameter; /* or NULL; then what eas/interop/torch_words.py has found */
    int64_t impl_at;                              /* bytes from the object to the pointer to its TensorImpl */
    int64_t keys_at;                              /* bytes from that to its dispatch keys */
    uint64_t plain_keys;                          /* those of a dense tensor of the CPU, not wrapped, negated or frozen */
    int32_t (*torch_data)(void **handle, void **out);
    int32_t (*torch_dtype)(void **handle, int32_t *out);
    int32_t (*torch_dim)(void **handle, int64_t *out);
    int32_t (*torch_sizes)(void **handle, int64_t **out);
    int32_t (*torch_strides)(void **handle, int64_t **out);
    int32_t (*torch_offset)(void **handle, int64_t *out);
    int32_t (*torch_storage_nbytes)(void **handle, int64_t *out);
    char (*torch_requires_grad)(const void *impl);
    void (*torch_bump)(void **handle); /* the version that autograd looks at */
};

struct plan {
    int64_t n_params;
    const struct param *params;
    int64_t n_guards;
    const struct guard *guards;
    int64_t n_facts;
    const struct fact *facts;
    int64_t n_variants;
    const struct variant *variants;
    int64_t n_fixed;
    const struct fixed *fixed;
    int64_t n_args;
    pool_run_fn *run;
    int64_t n_threads;
    const int64_t *pending; /* launches that have not ended: Python orders this one behind them */
    PyObject *on_error;     /* called with the record of a failed program */
    PyObject *owner;        /* keeps everything that this plan points to */
    int64_t can_infer;      /* the grid of a call that gives none follows from `axes` */
    struct axis axes[3];
    PyObject *device, *private_device; /* of eas tensors */
    int64_t on_host;                   /* torch tensors of the CPU are its memory */
    int64_t answer;                    /* the parameter that the call returns; -1: None */
    int64_t n_positional;              /* so many arguments may be given by position */
    const struct world *world;
};

/* The plans of one callable object, the last used one first. */
struct table {
    int64_t n_plans;
    const struct plan *plans[MAX_PLANS];
    PyObject *readers, *special; /* a set and a list: unless both are empty, Python looks at the call */
    PyObject *grid_name;         /* `_grid` */
    const struct world *world;
};

/* The memory behind a callable object, whose type eas/launch/callable.py makes. */
struct callable {
    int64_t refcount;
    PyTypeObject *type;
    PyObject *(*vectorcall)(struct callable *, PyObject *const *, uint64_t, PyObject *);
    struct table *table;
    PyObject *grid;      /* of `kernel[grid]`, or NULL */
    PyObject *otherwise; /* called with this object and its arguments where no plan fits */
    PyObject *tell;      /* called with this object and an error of a launch, which it makes what the caller sees */
};

/* What a launch found. The extension for Metal reads `ends` and `objects` (launch_layout.py). */
struct frame {
    int64_t slots[2 * MAX_ARGS + 8]; /* what a kernel gets: arguments, grid, record, log, elements of the buffers */
    uint64_t ends[MAX_ARGS];
    int64_t record[5];
    uint64_t facts;
    int64_t grid[3];
    PyObject *objects[MAX_ARGS]; /* those of buffers */
    int64_t n_changed;
    void *changed[MAX_ARGS]; /* torch tensors that the kernel writes */
};

#endif
