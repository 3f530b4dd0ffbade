// Command buffers of a stream: opening, filling, committing, completing.
//
// A command buffer is committed when it has enough commands or bytes or has been open long enough, and at once while the GPU
// has nothing to do for its stream: what was encoded starts without a further call. Those of one stream run in order by a
// fence; one that comes after a command of another stream begins with waits for its event, which counts tickets. Waits are only
// ever for command buffers that are committed, so the order of commits is one in which all can run.
#include "eas_metal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static Launch* garbage;

template <class T>
static void put(void*& place, T object) {
    (void)(__bridge_transfer id)place;
    place = object ? (__bridge_retained void*)object : nullptr;
}

static double now(void) {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// --- launches -------------------------------------------------------------------------------------

static Launch* new_launch(const char* name, const Span* spans, uint32_t n_spans, PyObject* const* kept, uint32_t n_kept) {
    Launch* launch = static_cast<Launch*>(malloc(sizeof(Launch) + sizeof(Span) * n_spans + sizeof(PyObject*) * n_kept));
    *launch = {};
    launch->thread = PyThread_get_thread_ident();
    launch->name = name;
    launch->spans = reinterpret_cast<Span*>(launch + 1);
    launch->kept = reinterpret_cast<PyObject**>(launch->spans + n_spans);
    launch->n_spans = n_spans;
    memcpy(launch->spans, spans, sizeof(Span) * n_spans);
    for (uint32_t i = 0; i < n_kept; i++)
        if (kept[i]) launch->kept[launch->n_kept++] = Py_NewRef(kept[i]);
    return launch;
}

void throw_away(Launch* launch) {
    if (!launch) return;
    launch->next = garbage;
    garbage = launch;
}

void release_garbage(void) {
    if (!__atomic_load_n(&garbage, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&state_lock);
    Launch* found = garbage;
    garbage = nullptr;
    pthread_mutex_unlock(&state_lock);
    while (Launch* launch = found) {  // to let go of an object may run any Python code, this function too
        found = launch->next;
        for (uint32_t i = 0; i < launch->n_kept; i++) Py_DECREF(launch->kept[i]);
        free(launch);
    }
}

// --- streams --------------------------------------------------------------------------------------

static id<MTLCommandQueue> new_queue(const Stream* s) {
    // Metal would give 64 command buffers and let the 65th wait, with Python's lock; those in their handlers count, too.
    return [the_device() newCommandQueueWithMaxCommandBufferCount:s->max_in_flight + 4];
}

Stream* new_stream(uint32_t max_in_flight, uint32_t max_ops, uint64_t max_nbytes, double max_seconds) {
    id<MTLDevice> gpu = the_device();
    if (!gpu) return nullptr;
    uint32_t index = 0;
    while (index < kMaxStreams && streams[index]) index++;
    if (index == kMaxStreams) {
        raise_error("use", "there are %d streams already", kMaxStreams);
        return nullptr;
    }
    Stream* s = static_cast<Stream*>(calloc(1, sizeof(Stream)));
    s->index = index;
    s->references = 1;
    s->max_in_flight = max_in_flight ? max_in_flight : 1;
    s->max_ops = max_ops ? max_ops : 1;
    s->max_nbytes = max_nbytes;
    s->max_seconds = max_seconds;
    put(s->queue, new_queue(s));
    put(s->fence, [gpu newFence]);
    put(s->event, [gpu newSharedEvent]);
    pthread_mutex_lock(&state_lock);
    streams[index] = s;
    pthread_mutex_unlock(&state_lock);
    return s;
}

void drop_reference(Stream* s) {
    if (--s->references) return;
    for (Stream* other : streams) {  // its number will be another stream's
        if (!other) continue;
        other->waited[s->index] = 0;
        for (Batch* b = other->oldest; b; b = b->newer) b->waits[s->index] = 0;
    }
    streams[s->index] = nullptr;
    put(s->queue, (id)nil);
    put(s->fence, (id)nil);
    put(s->event, (id)nil);
    free(s);
}

// --- command buffers ------------------------------------------------------------------------------

static void close_encoder(Stream* s) {
    if (!s->encoder) return;
    id<MTLComputeCommandEncoder> encoder = (__bridge id<MTLComputeCommandEncoder>)s->encoder;
    [encoder updateFence:(__bridge id<MTLFence>)s->fence];
    [encoder endEncoding];
    put(s->encoder, (id)nil);
    s->has_fence = true;
}

static void complete(Batch* batch, id<MTLCommandBuffer> done);

static void commit(Stream* s) {
    Batch* batch = s->open;
    if (!batch) return;
    close_encoder(s);
    s->open = nullptr;
    batch->is_committed = true;
    s->n_in_flight++;
    s->n_commits++;
    id<MTLCommandBuffer> buffer = (__bridge id<MTLCommandBuffer>)batch->buffer;
    [buffer encodeSignalEvent:(__bridge id<MTLSharedEvent>)s->event value:batch->ticket];
    [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
      complete(batch, done);
    }];
    [buffer commit];
}

void flush_to(Stream* s, uint64_t ticket) {
    if (s->open && s->open->ticket <= ticket) commit(s);
}

// --- completion: on threads of Metal --------------------------------------------------------------

// Whether the launches that depend on others have heard of all failures of these.
static bool may_settle(const Batch* batch) {
    for (uint32_t i = 0; i < kMaxStreams; i++)
        if (batch->waits[i] && streams[i] && streams[i]->completed < batch->waits[i]) return false;
    return batch->is_done;
}

static void settle_launch(Launch* launch, const Batch* batch, uint64_t group) {
    if (batch->error) return note_failure(launch, group, kind_of_code(batch->error_code), batch->error, launch->number);
    if (launch->log && *launch->log) return note_failure(launch, group, "assert", "", launch->number);
    const Failure* before = failure_before(launch->spans, launch->n_spans, launch->number);
    if (before) return note_failure(launch, group, "dependency", "", root_of(before));
    throw_away(launch);
}

static void settle(Stream* s, Batch* batch) {
    s->oldest = batch->newer;
    (s->oldest ? s->oldest->older : s->newest) = nullptr;
    s->completed = batch->ticket;
    s->n_in_flight--;
    if (batch->error) s->is_faulted = true;
    uint64_t group = batch->first ? batch->first->number : 0;
    for (Launch* launch = batch->first; launch;) {
        Launch* next = launch->next;
        settle_launch(launch, batch, group);
        launch = next;
    }
    put(batch->buffer, (id)nil);
    free(batch->error);
    free(batch);
}

static uint64_t oldest_launch(void) {
    uint64_t oldest = n_launches + 1;
    for (const Stream* s : streams)
        for (const Batch* b = s ? s->oldest : nullptr; b; b = b->newer)
            if (b->first && b->first->number < oldest) oldest = b->first->number;
    return oldest;
}

// Takes note of all that has completed, in an order in which what others depend on comes first.
static void settle_all(void) {
    for (bool moves = true; moves;) {
        moves = false;
        for (Stream* s : streams)
            while (s && s->oldest && s->oldest->is_committed && may_settle(s->oldest)) {
                settle(s, s->oldest);
                moves = true;
            }
    }
    forget_told(oldest_launch());
    for (Stream* s : streams)  // the GPU has nothing else to do for such a stream; a queue that is ignored is emptied
        if (s && s->open && s->open == s->oldest && (s->open->n_ops || s->is_faulted)) commit(s);
}

static void complete(Batch* batch, id<MTLCommandBuffer> done) {
    @autoreleasepool {
        NSError* error = done.error;
        pthread_mutex_lock(&state_lock);
        Stream* s = batch->stream;
        if (error) {
            batch->error = copied(error.localizedDescription.UTF8String);
            batch->error_code = error.code;
            // A command buffer that failed may not have signalled: who waits for it goes on, and hears of it.
            id<MTLSharedEvent> event = (__bridge id<MTLSharedEvent>)s->event;
            if (event.signaledValue < batch->ticket) event.signaledValue = batch->ticket;
        }
        double seconds = done.GPUEndTime - done.GPUStartTime;
        s->gpu_seconds += seconds;
        if (is_timed() && !error && batch->n_ops == 1) note_time(batch->first, seconds);
        batch->is_done = true;
        settle_all();
        pthread_cond_broadcast(&state_changed);
        drop_reference(s);
        pthread_mutex_unlock(&state_lock);
    }
}

void let_go(Stream* s) {
    pthread_mutex_lock(&state_lock);
    commit(s);
    drop_reference(s);
    pthread_mutex_unlock(&state_lock);
}

// --- waiting --------------------------------------------------------------------------------------

static bool is_reached(const Stream* s, uint64_t ticket, uint32_t max_in_flight) { return s->completed >= ticket || s->n_in_flight < max_in_flight; }

// Waits until a ticket has completed, or few enough command buffers are under way.
static int wait_until(Stream* s, uint64_t ticket, uint32_t max_in_flight) {
    pthread_mutex_lock(&state_lock);
    bool is_done = is_reached(s, ticket, max_in_flight);
    pthread_mutex_unlock(&state_lock);
    while (!is_done) {
        PyThreadState* others = PyEval_SaveThread();
        timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50'000'000;
        until.tv_sec += until.tv_nsec / 1'000'000'000;
        until.tv_nsec %= 1'000'000'000;
        pthread_mutex_lock(&state_lock);
        int rc = 0;
        while (!is_reached(s, ticket, max_in_flight) && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&state_changed, &state_lock, &until);
        is_done = is_reached(s, ticket, max_in_flight);
        pthread_mutex_unlock(&state_lock);
        PyEval_RestoreThread(others);
        if (!is_done && PyErr_CheckSignals()) return -1;
    }
    release_garbage();
    return 0;
}

int wait_for(Stream* s, uint64_t ticket) { return wait_until(s, ticket, 0); }

// --- encoding -------------------------------------------------------------------------------------

static Batch* new_batch(Stream* s, id<MTLCommandBuffer> buffer) {
    Batch* batch = static_cast<Batch*>(calloc(1, sizeof(Batch)));
    batch->stream = s;
    batch->ticket = ++s->ticket;
    batch->begin = UINT64_MAX;
    batch->opened = now();
    put(batch->buffer, buffer);
    memcpy(batch->waits, s->waited, sizeof batch->waits);
    batch->older = s->newest;
    (s->newest ? s->newest->newer : s->oldest) = batch;
    s->newest = s->open = batch;
    s->references++;
    return batch;
}

// A queue that works, for one that Metal may ignore; what was committed to that one ends soon.
static int renew_queue(Stream* s) {
    if (wait_until(s, UINT64_MAX, 1)) return -1;
    if (!s->is_faulted) return 0;  // somebody else did it
    id<MTLCommandQueue> queue = new_queue(s);
    if (!queue) {
        raise_error("removed", "Metal gives no new queue after a fault");
        return -1;
    }
    put(s->queue, queue);
    s->has_fence = s->is_faulted = false;
    s->is_renewed = true;
    return 0;
}

static void wait_on_gpu(Stream* s, uint32_t index, uint64_t ticket) {
    flush_to(streams[index], ticket);
    [(__bridge id<MTLCommandBuffer>)s->open->buffer encodeWaitForEvent:(__bridge id<MTLSharedEvent>)streams[index]->event value:ticket];
    s->waited[index] = s->open->waits[index] = ticket;
    s->n_waits++;
}

// Opens a command buffer when few enough are under way; may wait, so anything may be different afterwards.
static int open_batch(Stream* s) {
    if (wait_until(s, UINT64_MAX, is_timed() ? 1 : s->max_in_flight)) return -1;
    if (__atomic_load_n(&s->is_faulted, __ATOMIC_RELAXED) && renew_queue(s)) return -1;
    if (s->open) return 0;
    id<MTLCommandBuffer> buffer = [(__bridge id<MTLCommandQueue>)s->queue commandBuffer];
    if (!buffer) {
        raise_error("removed", "Metal gives no command buffer");
        return -1;
    }
    pthread_mutex_lock(&state_lock);
    new_batch(s, buffer);
    for (uint32_t i = 0; i < kMaxStreams && s->is_renewed; i++)  // the old queue was to wait for these
        if (streams[i] && streams[i] != s && streams[i]->completed < s->waited[i]) wait_on_gpu(s, i, s->waited[i]);
    s->is_renewed = false;
    pthread_mutex_unlock(&state_lock);
    return 0;
}

static void wait_for_others(Stream* s, const uint64_t tickets[kMaxStreams]) {
    for (uint32_t i = 0; i < kMaxStreams; i++)
        if (tickets[i]) wait_on_gpu(s, i, tickets[i]);
}

// Afterwards the lock is held, and a command buffer is open that comes after all that these bytes, or these tickets, need.
static int enter(Stream* s, const Span* spans, uint32_t n, Stream* other, uint64_t ticket) {
    uint64_t tickets[kMaxStreams];
    if (!is_usable()) return -1;  // the lock may be that of the parent
    while (true) {
        pthread_mutex_lock(&state_lock);
        bool waits = find_waits(s, spans, n, tickets);
        if (other && ticket > s->waited[other->index] && ticket > other->completed) {
            tickets[other->index] = ticket;
            waits = true;
        }
        bool is_alone = is_timed();
        if (s->open && !(s->open->n_ops && (waits || is_alone))) {
            if (!waits || !is_alone) break;
            wait_for_others(s, tickets);  // in a command buffer of their own: the time of the next is that of its command
        }
        if (s->open) commit(s);
        pthread_mutex_unlock(&state_lock);
        if (open_batch(s)) return -1;
    }
    wait_for_others(s, tickets);
    return 0;
}

// The open encoder; a new one comes after all others of its stream.
static id<MTLComputeCommandEncoder> the_encoder(Stream* s) {
    if (s->encoder) return (__bridge id<MTLComputeCommandEncoder>)s->encoder;
    id<MTLComputeCommandEncoder> encoder = [(__bridge id<MTLCommandBuffer>)s->open->buffer computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
    if (s->has_fence) [encoder waitForFence:(__bridge id<MTLFence>)s->fence];
    put(s->encoder, encoder);
    s->n_spans = 0;
    return encoder;
}

// Adds a launch to the open command buffer, and commits that if it is due.
static void add(Stream* s, Launch* launch, uint32_t n_ops) {
    Batch* batch = s->open;
    (batch->last ? batch->last->next : batch->first) = launch;
    batch->last = launch;
    batch->n_ops += n_ops;
    for (uint32_t i = 0; i < launch->n_spans; i++) {
        const Span& span = launch->spans[i];
        batch->nbytes += span.end - span.begin;
        if (span.begin < batch->begin) batch->begin = span.begin;
        if (span.end > batch->end) batch->end = span.end;
    }
    bool is_due = is_timed() || batch->n_ops >= s->max_ops || batch->nbytes >= s->max_nbytes || now() - batch->opened >= s->max_seconds;
    if (is_due || batch == s->oldest) commit(s);  // the oldest: the GPU has nothing else to do for this stream
}

uint32_t spans_of(const Command* c, Span* spans) {
    for (uint32_t i = 0; i < c->count; i++) {
        const Binding& b = c->bindings[i];
        uint64_t begin = b.buffer->address + b.offset;
        spans[i] = {begin, begin + b.nbytes, b.is_written};
    }
    return c->count;
}

static Launch* launch_of(const Stream* s, const Command* c, const Span* spans) {
    PyObject* kept[kSlots + 2] = {reinterpret_cast<PyObject*>(c->pipeline), c->owner};
    for (uint32_t i = 0; i < c->count; i++) kept[i + 2] = c->bindings[i].kept;
    Launch* launch = new_launch(c->pipeline->name, spans, c->count, kept, c->count + 2);
    launch->log = c->log;
    launch->stream = static_cast<int>(s->index);
    return launch;
}

static bool is_bound(const Command* before, uint32_t index, const Binding& binding) {
    for (uint32_t i = 0; before && i < before->count; i++)
        if (before->indices[i] == index) return before->bindings[i].buffer == binding.buffer && before->bindings[i].offset == binding.offset;
    return false;
}

static bool has_constants(const Command* before, const Command* c) {
    return before && before->constants_index == c->constants_index && before->constants_nbytes == c->constants_nbytes && !memcmp(before->constants, c->constants, c->constants_nbytes);
}

void dispatch(id<MTLComputeCommandEncoder> encoder, const Command* c, const Command* before) {
    if (!before || before->pipeline != c->pipeline) [encoder setComputePipelineState:(__bridge id<MTLComputePipelineState>)c->pipeline->state];
    for (uint32_t i = 0; i < c->count; i++) {
        const Binding& b = c->bindings[i];
        if (!is_bound(before, c->indices[i], b)) [encoder setBuffer:(__bridge id<MTLBuffer>)b.buffer->buffer offset:b.offset atIndex:c->indices[i]];
    }
    if (c->constants_nbytes && !has_constants(before, c)) [encoder setBytes:c->constants length:c->constants_nbytes atIndex:c->constants_index];
    [encoder dispatchThreadgroups:MTLSize{c->groups[0], c->groups[1], c->groups[2]} threadsPerThreadgroup:MTLSize{c->threads[0], c->threads[1], c->threads[2]}];
}

static Launch* launch_of(const Stream* s, const Whole& whole) {
    Launch* launch = new_launch(whole.name, whole.spans, whole.n_spans, &whole.kept, 1);
    launch->stream = static_cast<int>(s->index);
    return launch;
}

int encode_whole(Stream* s, const Whole& whole, uint64_t* number, uint64_t* ticket, void (^commands)(id<MTLComputeCommandEncoder>)) {
    @autoreleasepool {
        if (enter(s, whole.spans, whole.n_spans, nullptr, 0)) return -1;
        const Failure* before = whole.is_first ? failure_before(whole.spans, whole.n_spans, n_launches + 1) : nullptr;
        if (before) {
            *number = root_of(before);
            pthread_mutex_unlock(&state_lock);
            return 1;
        }
        id<MTLComputeCommandEncoder> encoder = the_encoder(s);
        if (needs_barrier(s, whole.spans, whole.n_spans)) {
            [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
            s->n_barriers++;
        }
        commands(encoder);
        Launch* launch = launch_of(s, whole);
        *number = launch->number = ++n_launches;
        *ticket = s->ticket;
        add(s, launch, whole.n_ops);
        pthread_mutex_unlock(&state_lock);
        release_garbage();
        return 0;
    }
}

static uint64_t refused(Launch* launch, uint64_t root) {
    pthread_mutex_lock(&state_lock);
    uint64_t number = launch->number = ++n_launches;
    note_failure(launch, number, "dependency", "", root);
    pthread_mutex_unlock(&state_lock);
    return number;
}

uint64_t refuse_whole(const Stream* s, const Whole& whole, uint64_t root) { return refused(launch_of(s, whole), root); }

int encode(Stream* s, const Command* c, uint64_t* number, uint64_t* ticket) {
    @autoreleasepool {
        Span spans[kSlots];
        spans_of(c, spans);
        if (enter(s, spans, c->count, nullptr, 0)) return -1;
        const Failure* before = failure_before(spans, c->count, n_launches + 1);
        if (before) {
            *number = root_of(before);
            pthread_mutex_unlock(&state_lock);
            return 1;
        }
        id<MTLComputeCommandEncoder> encoder = the_encoder(s);
        if (needs_barrier(s, spans, c->count)) {
            [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
            s->n_barriers++;
        }
        dispatch(encoder, c, nullptr);
        Launch* launch = launch_of(s, c, spans);
        *number = launch->number = ++n_launches;
        *ticket = s->ticket;
        add(s, launch, 1);
        pthread_mutex_unlock(&state_lock);
        release_garbage();
        return 0;
    }
}

uint64_t refuse(const Stream* s, const Command* c, uint64_t root) {
    Span spans[kSlots];
    spans_of(c, spans);
    return refused(launch_of(s, c, spans), root);
}

int encode_copy(Stream* s, BufferObject* from, uint64_t at, BufferObject* to, uint64_t to_at, uint64_t nbytes, uint64_t* number, uint64_t* ticket) {
    @autoreleasepool {
        Span spans[2] = {{from->address + at, from->address + at + nbytes, false}, {to->address + to_at, to->address + to_at + nbytes, true}};
        PyObject* kept[2] = {reinterpret_cast<PyObject*>(from), reinterpret_cast<PyObject*>(to)};
        if (enter(s, spans, 2, nullptr, 0)) return -1;
        const Failure* before = failure_before(spans, 2, n_launches + 1);
        if (before) {
            *number = root_of(before);
            pthread_mutex_unlock(&state_lock);
            return 1;
        }
        close_encoder(s);
        id<MTLBlitCommandEncoder> blit = [(__bridge id<MTLCommandBuffer>)s->open->buffer blitCommandEncoder];
        if (s->has_fence) [blit waitForFence:(__bridge id<MTLFence>)s->fence];
        [blit copyFromBuffer:(__bridge id<MTLBuffer>)from->buffer sourceOffset:at toBuffer:(__bridge id<MTLBuffer>)to->buffer destinationOffset:to_at size:nbytes];
        [blit updateFence:(__bridge id<MTLFence>)s->fence];
        [blit endEncoding];
        s->has_fence = true;
        Launch* launch = new_launch("copy", spans, 2, kept, 2);
        launch->stream = static_cast<int>(s->index);
        *number = launch->number = ++n_launches;
        *ticket = s->ticket;
        add(s, launch, 1);
        pthread_mutex_unlock(&state_lock);
        release_garbage();
        return 0;
    }
}

int encode_wait(Stream* s, Stream* other, uint64_t ticket) {
    if (s == other) return 0;
    @autoreleasepool {
        if (enter(s, nullptr, 0, other, ticket)) return -1;
        pthread_mutex_unlock(&state_lock);
        return 0;
    }
}
