// One stream of commands: encoding, hazards, commits, what has completed and what has failed.
//
// Commands of one encoder run at the same time unless a barrier stands between them. We set one only where two of them touch
// the same bytes and one writes: hazards are kept by address, since two MTLBuffers may be the same memory. A fence orders
// the encoders of a stream. Completion handlers run on threads of Metal: they take a lock of ours, never Python's.
#include "eas_metal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

PyTypeObject* stream_type;

enum { kMaxSpans = 256, kNamesBytes = 1024 };

// What completion handlers write and waiting threads read; outlives the stream while handlers need it.
@interface EasProgress : NSObject {
   @public
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t completed;  // tickets: the number of the last command buffer
    double gpu_seconds;
    char* error;         // of the first command buffer that failed, until it is told
    NSInteger error_code;
}
@end

@implementation EasProgress
- (instancetype)init {
    self = [super init];
    if (self) {
        pthread_mutex_init(&lock, nullptr);
        pthread_cond_init(&changed, nullptr);
    }
    return self;
}
- (void)dealloc {
    free(error);
    pthread_cond_destroy(&changed);
    pthread_mutex_destroy(&lock);
}
@end

// Python objects that a command buffer needs; released by a Python thread after it has completed.
struct Kept {
    Kept* next;
    uint64_t ticket;
    PyObject* object;
};

struct StreamObject {
    PyObject_HEAD
    void* progress;           // EasProgress
    void* queue;              // id<MTLCommandQueue>
    void* buffer;             // id<MTLCommandBuffer> that is being filled, or null
    void* encoder;            // its id<MTLComputeCommandEncoder>, or null
    void* fence;              // id<MTLFence>: after every encoder so far
    bool has_fence;           // an encoder has updated it
    uint64_t ticket;          // of the command buffer that is being filled
    uint64_t committed;
    Kept* kept;
    Span spans[kMaxSpans];    // since the last barrier
    uint32_t n_spans, n_ops, max_ops, max_in_flight;
    uint64_t nbytes, max_nbytes;
    uint64_t n_barriers, n_commits;
    double opened, max_seconds;  // when the command buffer was begun, and how long it may stay open
    char names[kNamesBytes];  // of the kernels in the command buffer
};

#define PROGRESS(s) ((__bridge EasProgress*)(s)->progress)

template <class T>
static void put(void*& place, T object) {
    (void)(__bridge_transfer id)place;
    place = object ? (__bridge_retained void*)object : nullptr;
}

static void release_kept(StreamObject* s, uint64_t completed) {
    Kept** at = &s->kept;
    while (Kept* k = *at) {
        if (k->ticket > completed) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        Py_DECREF(k->object);
        free(k);
    }
}

static void keep(StreamObject* s, PyObject* object) {
    Kept* k = static_cast<Kept*>(malloc(sizeof(Kept)));
    *k = {s->kept, s->ticket, Py_NewRef(object)};
    s->kept = k;
}

static uint64_t completed(StreamObject* s) {
    EasProgress* p = PROGRESS(s);
    pthread_mutex_lock(&p->lock);
    uint64_t found = p->completed;
    pthread_mutex_unlock(&p->lock);
    return found;
}

// --- waiting and failing --------------------------------------------------------------------------

// Raises what a command buffer failed with, once; the queue is made anew, for Metal may ignore the old one.
static int tell_failure(StreamObject* s) {
    EasProgress* p = PROGRESS(s);
    pthread_mutex_lock(&p->lock);
    char* text = p->error;
    NSInteger code = p->error_code;
    p->error = nullptr;
    pthread_mutex_unlock(&p->lock);
    if (!text) return 0;
    id<MTLDevice> gpu = the_device();
    if (gpu) put(s->queue, [gpu newCommandQueueWithMaxCommandBufferCount:s->max_in_flight + 2]);
    s->has_fence = false;
    raise_error(kind_of_code(code), "%s", text);
    free(text);
    return -1;
}

// Waits without the GIL until a ticket has completed; Ctrl-C ends the wait, not the work.
static int wait_for(StreamObject* s, uint64_t ticket) {
    EasProgress* p = PROGRESS(s);
    while (true) {
        bool done;
        PyThreadState* others = PyEval_SaveThread();
        timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50'000'000;
        until.tv_sec += until.tv_nsec / 1'000'000'000;
        until.tv_nsec %= 1'000'000'000;
        pthread_mutex_lock(&p->lock);
        while (p->completed < ticket && pthread_cond_timedwait(&p->changed, &p->lock, &until) == 0) {}
        done = p->completed >= ticket;
        pthread_mutex_unlock(&p->lock);
        PyEval_RestoreThread(others);
        if (done) break;
        if (PyErr_CheckSignals()) return -1;
    }
    release_kept(s, completed(s));
    return 0;
}

// --- command buffers ------------------------------------------------------------------------------

static double now(void) {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

static int open_buffer(StreamObject* s) {
    if (s->buffer) return 0;
    if (!is_usable()) return -1;
    if (s->committed >= s->max_in_flight && wait_for(s, s->committed - s->max_in_flight + 1)) return -1;
    if (tell_failure(s)) return -1;
    id<MTLCommandBuffer> buffer = [(__bridge id<MTLCommandQueue>)s->queue commandBuffer];
    if (!buffer) {
        raise_error("internal", "Metal gives no command buffer");
        return -1;
    }
    put(s->buffer, buffer);
    s->ticket = s->committed + 1;
    s->names[0] = 0;
    s->opened = now();
    return 0;
}

static int open_encoder(StreamObject* s) {
    if (s->encoder) return 0;
    if (open_buffer(s)) return -1;
    id<MTLComputeCommandEncoder> encoder = [(__bridge id<MTLCommandBuffer>)s->buffer computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
    if (!encoder) {
        raise_error("internal", "Metal gives no encoder");
        return -1;
    }
    if (s->has_fence) [encoder waitForFence:(__bridge id<MTLFence>)s->fence];
    put(s->encoder, encoder);
    s->n_spans = 0;
    return 0;
}

static void close_encoder(StreamObject* s) {
    if (!s->encoder) return;
    id<MTLComputeCommandEncoder> encoder = (__bridge id<MTLComputeCommandEncoder>)s->encoder;
    [encoder updateFence:(__bridge id<MTLFence>)s->fence];
    [encoder endEncoding];
    put(s->encoder, (id)nil);
    s->has_fence = true;
}

static void commit(StreamObject* s) {
    if (!s->buffer) return;
    close_encoder(s);
    id<MTLCommandBuffer> buffer = (__bridge id<MTLCommandBuffer>)s->buffer;
    EasProgress* progress = PROGRESS(s);
    uint64_t ticket = s->ticket;
    char* names = copied(s->names);
    [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
      NSError* error = done.error;
      pthread_mutex_lock(&progress->lock);
      if (error && !progress->error) {
          const char* text = error.localizedDescription.UTF8String;
          char* told = static_cast<char*>(malloc(strlen(text) + strlen(names) + 64));
          strcpy(told, "while running ");
          strcat(strcat(strcat(told, names[0] ? names : "copies"), ": "), text);
          progress->error = told;
          progress->error_code = error.code;
      }
      progress->gpu_seconds += done.GPUEndTime - done.GPUStartTime;
      if (progress->completed < ticket) progress->completed = ticket;
      pthread_cond_broadcast(&progress->changed);
      pthread_mutex_unlock(&progress->lock);
      free(names);
    }];
    [buffer commit];
    put(s->buffer, (id)nil);
    s->committed = ticket;
    s->n_ops = 0;
    s->nbytes = 0;
    s->n_commits++;
}

// Commits a command buffer that has enough commands or bytes, or that the GPU has waited for long enough.
static void commit_if_due(StreamObject* s) {
    if (++s->n_ops >= s->max_ops || s->nbytes >= s->max_nbytes || now() - s->opened >= s->max_seconds) commit(s);
}

// --- hazards --------------------------------------------------------------------------------------

static bool clashes(const StreamObject* s, const Span& span) {
    for (uint32_t i = 0; i < s->n_spans; i++) {
        const Span& other = s->spans[i];
        if (span.begin < other.end && other.begin < span.end && (span.is_written || other.is_written)) return true;
    }
    return false;
}

static void order(StreamObject* s, const Command* c) {
    bool is_ordered = s->n_spans + c->count <= kMaxSpans;
    for (uint32_t i = 0; i < c->count && is_ordered; i++) {
        const Binding& b = c->bindings[i];
        uint64_t begin = b.buffer->address + b.offset;
        is_ordered = !clashes(s, {begin, begin + b.nbytes, b.is_written});
    }
    if (!is_ordered) {
        [(__bridge id<MTLComputeCommandEncoder>)s->encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
        s->n_spans = 0;
        s->n_barriers++;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        const Binding& b = c->bindings[i];
        uint64_t begin = b.buffer->address + b.offset;
        s->spans[s->n_spans++] = {begin, begin + b.nbytes, b.is_written};
        s->nbytes += b.nbytes;
    }
}

int encode(StreamObject* s, const Command* c) {
    @autoreleasepool {
        if (open_encoder(s)) return -1;
        order(s, c);
        id<MTLComputeCommandEncoder> encoder = (__bridge id<MTLComputeCommandEncoder>)s->encoder;
        [encoder setComputePipelineState:(__bridge id<MTLComputePipelineState>)c->pipeline->state];
        for (uint32_t i = 0; i < c->count; i++) {
            const Binding& b = c->bindings[i];
            [encoder setBuffer:(__bridge id<MTLBuffer>)b.buffer->buffer offset:b.offset atIndex:c->indices[i]];
            keep(s, reinterpret_cast<PyObject*>(b.buffer));
        }
        keep(s, reinterpret_cast<PyObject*>(c->pipeline));
        if (c->constants_nbytes) [encoder setBytes:c->constants length:c->constants_nbytes atIndex:c->constants_index];
        [encoder dispatchThreadgroups:MTLSize{c->groups[0], c->groups[1], c->groups[2]} threadsPerThreadgroup:MTLSize{c->threads[0], c->threads[1], c->threads[2]}];
        size_t used = strlen(s->names), more = strlen(c->pipeline->name);
        if (!strstr(s->names, c->pipeline->name) && used + more + 3 < kNamesBytes) strcat(strcat(s->names, used ? ", " : ""), c->pipeline->name);
        commit_if_due(s);
        return 0;
    }
}

// --- the Python type ------------------------------------------------------------------------------

static StreamObject* self_of(PyObject* self) { return reinterpret_cast<StreamObject*>(self); }

static PyObject* stream_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"max_in_flight", "max_ops", "max_nbytes", "max_seconds", nullptr};
    unsigned in_flight = 64, ops = 40;
    unsigned long long nbytes = 40ull << 20;
    double seconds = 0.002;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|IIKd", const_cast<char**>(names), &in_flight, &ops, &nbytes, &seconds)) return nullptr;
    @autoreleasepool {
        id<MTLDevice> gpu = the_device();
        if (!gpu) return nullptr;
        allocfunc alloc = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
        StreamObject* s = reinterpret_cast<StreamObject*>(alloc(type, 0));
        if (!s) return nullptr;
        s->max_in_flight = in_flight ? in_flight : 1;
        s->max_ops = ops ? ops : 1;
        s->max_nbytes = nbytes;
        s->max_seconds = seconds;
        put(s->progress, [EasProgress new]);
        // Metal would give 64 command buffers and let the 65th wait: we never have more than this under way.
        put(s->queue, [gpu newCommandQueueWithMaxCommandBufferCount:s->max_in_flight + 2]);
        put(s->fence, [gpu newFence]);
        return reinterpret_cast<PyObject*>(s);
    }
}

static void stream_dealloc(PyObject* object) {
    StreamObject* s = self_of(object);
    @autoreleasepool {
        if (s->progress && is_usable()) {
            commit(s);
            EasProgress* p = PROGRESS(s);
            Py_BEGIN_ALLOW_THREADS
            pthread_mutex_lock(&p->lock);
            while (p->completed < s->committed) pthread_cond_wait(&p->changed, &p->lock);
            pthread_mutex_unlock(&p->lock);
            Py_END_ALLOW_THREADS
        }
        PyErr_Clear();
        release_kept(s, UINT64_MAX);
        put(s->encoder, (id)nil);
        put(s->buffer, (id)nil);
        put(s->queue, (id)nil);
        put(s->fence, (id)nil);
        put(s->progress, (id)nil);
    }
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject* flush(PyObject* self, PyObject* none) {
    @autoreleasepool {
        commit(self_of(self));
        release_kept(self_of(self), completed(self_of(self)));
        return PyLong_FromUnsignedLongLong(self_of(self)->committed);
    }
}

static PyObject* wait(PyObject* self, PyObject* args) {
    StreamObject* s = self_of(self);
    unsigned long long ticket = UINT64_MAX;
    if (!PyArg_ParseTuple(args, "|K", &ticket)) return nullptr;
    @autoreleasepool {
        if (ticket > s->committed) {
            commit(s);
            ticket = s->committed;
        }
        if (wait_for(s, ticket) || tell_failure(s)) return nullptr;
        Py_RETURN_NONE;
    }
}

static BufferObject* buffer_arg(PyObject* object) {
    if (Py_TYPE(object) == buffer_type) return reinterpret_cast<BufferObject*>(object);
    PyErr_SetString(PyExc_TypeError, "expected an eas._metal.Buffer");
    return nullptr;
}

static PyObject* copy(PyObject* self, PyObject* args) {
    StreamObject* s = self_of(self);
    PyObject *source, *target;
    unsigned long long from, to, nbytes;
    if (!PyArg_ParseTuple(args, "OKOKK", &source, &from, &target, &to, &nbytes)) return nullptr;
    BufferObject *a = buffer_arg(source), *b = a ? buffer_arg(target) : nullptr;
    if (!b) return nullptr;
    @autoreleasepool {
        if (open_buffer(s)) return nullptr;
        close_encoder(s);
        id<MTLBlitCommandEncoder> blit = [(__bridge id<MTLCommandBuffer>)s->buffer blitCommandEncoder];
        if (s->has_fence) [blit waitForFence:(__bridge id<MTLFence>)s->fence];
        [blit copyFromBuffer:(__bridge id<MTLBuffer>)a->buffer sourceOffset:from toBuffer:(__bridge id<MTLBuffer>)b->buffer destinationOffset:to size:nbytes];
        [blit updateFence:(__bridge id<MTLFence>)s->fence];
        [blit endEncoding];
        s->has_fence = true;
        keep(s, source);
        keep(s, target);
        s->nbytes += nbytes;
        commit_if_due(s);
        Py_RETURN_NONE;
    }
}

static PyObject* get_pending(PyObject* self, void*) {
    StreamObject* s = self_of(self);
    return PyBool_FromLong(s->buffer || completed(s) < s->committed);
}

static PyObject* get_ticket(PyObject* self, void*) {
    StreamObject* s = self_of(self);
    return PyLong_FromUnsignedLongLong(s->buffer ? s->ticket : s->committed);
}

static PyObject* get_completed(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(completed(self_of(self))); }

static PyObject* get_statistics(PyObject* self, void*) {
    StreamObject* s = self_of(self);
    EasProgress* p = PROGRESS(s);
    pthread_mutex_lock(&p->lock);
    double seconds = p->gpu_seconds;
    pthread_mutex_unlock(&p->lock);
    return Py_BuildValue("{s:K,s:K,s:d}", "barriers", static_cast<unsigned long long>(s->n_barriers), "commits", static_cast<unsigned long long>(s->n_commits), "gpu_seconds", seconds);
}

static PyMethodDef stream_methods[] = {
    {"flush", flush, METH_NOARGS, "Commit what was encoded; the ticket of the last command buffer."},
    {"wait", wait, METH_VARARGS, "Wait for a ticket, or for everything; raises what failed."},
    {"copy", copy, METH_VARARGS, "copy(source, from, target, to, nbytes): a copy on the GPU."},
    {},
};

static PyGetSetDef stream_fields[] = {
    {"is_pending", get_pending, nullptr, "Whether something has not completed.", nullptr},
    {"ticket", get_ticket, nullptr, "The number of the command buffer with the last command.", nullptr},
    {"completed", get_completed, nullptr, "The number of the last command buffer that has completed.", nullptr},
    {"statistics", get_statistics, nullptr, "Barriers, commits and seconds of GPU time so far.", nullptr},
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
