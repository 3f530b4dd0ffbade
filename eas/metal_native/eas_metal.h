// What the parts of `eas._metal` know of each other: plain structs and functions. Policy stays in Python.
#pragma once
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#import <Metal/Metal.h>

#include <pthread.h>

enum { kSlots = 31, kMaxConstant = 4096, kMaxStreams = 32, kMaxSpans = 256 };

// --- errors.mm ------------------------------------------------------------------------------------

// `eas._metal.Error(kind, text)`: kind is one of "compile", "memory", "fault", "timeout", "removed", "ignored", "internal", "use".
PyObject* raise_error(const char* kind, const char* format, ...);
bool is_our_error(void);
PyObject* raise_ns_error(const char* kind, NSError* error, const char* kernel);
const char* kind_of_code(NSInteger code);
int add_errors(PyObject* module);
// A copy of a text that free() takes.
char* copied(const char* text);

// --- device.mm ------------------------------------------------------------------------------------

// The GPU, or nil with a Python error.
id<MTLDevice> the_device(void);
PyObject* device_info(PyObject* module, PyObject* none);
// Whether this process is a child of the one that opened the device: its objects and locks are the parent's.
bool is_forked(void);
// Not so, or an error.
bool is_usable(void);

// --- memory.mm ------------------------------------------------------------------------------------

struct BufferObject {
    PyObject_HEAD
    void* buffer;       // id<MTLBuffer>, retained
    PyObject* owner;    // of memory that was there before, or null
    char* start;        // null in private storage
    uint64_t address;   // of the first byte, which launches find it by and hazards go by; private: of a range of addresses that nobody may touch
    uint64_t n_reserved;  // bytes of that range, if it is this object's own
    Py_ssize_t nbytes;
    bool is_known;      // launches find it by address
};

extern PyTypeObject* buffer_type;
// The buffer that these bytes lie in, or null.
BufferObject* buffer_at(uint64_t address, uint64_t nbytes);
PyObject* place_of(PyObject* module, PyObject* args);
PyObject* allocate(PyObject* module, PyObject* args);
PyObject* wrap(PyObject* module, PyObject* args);
PyObject* adopt(PyObject* module, PyObject* args);
int add_memory(PyObject* module);

// --- library.mm -----------------------------------------------------------------------------------

struct PipelineObject {
    PyObject_HEAD
    void* state;  // id<MTLComputePipelineState>, retained
    char* name;   // of the kernel
    char* warnings;
};

extern PyTypeObject* pipeline_type;
PyObject* compile(PyObject* module, PyObject* args, PyObject* kwargs);
int add_library(PyObject* module);

// --- order.mm -------------------------------------------------------------------------------------

// Bytes that a command touches.
struct Span {
    uint64_t begin, end;
    bool is_written;
};

struct Stream;
struct Failure;

// What was launched by one call, from then on until its command buffer has completed and Python has let go of `kept`.
struct Launch {
    Launch* next;
    uint64_t number;       // launches of this process, from 1 on
    unsigned long thread;  // that made it
    int stream;            // its index
    const char* name;      // of its kernel; one of `kept` has the text
    const volatile uint32_t* log;  // its first word tells of a failed assertion; or null
    uint32_t n_spans, n_kept;
    Span* spans;
    PyObject** kept;
};

// A command buffer, from the moment it is opened until it has completed.
struct Batch {
    Batch *older, *newer;
    Stream* stream;
    uint64_t ticket;            // counts the command buffers of its stream
    void* buffer;               // id<MTLCommandBuffer>
    Launch *first, *last;
    uint64_t begin, end;        // all bytes that they touch lie between
    uint64_t waits[kMaxStreams];  // tickets of other streams that it comes after
    uint32_t n_ops;
    uint64_t nbytes;
    double opened;
    bool is_committed, is_done;
    NSInteger error_code;
    char* error;                // null: none
};

// One MTLCommandQueue; lives until its last command buffer has completed.
struct Stream {
    uint32_t index, references;
    void *queue, *encoder, *fence, *event;
    bool has_fence;             // an encoder has updated it
    bool is_faulted;            // Metal may ignore the queue from now on
    bool is_renewed;            // a new queue, which has not been told what to wait for
    Batch *oldest, *newest, *open;
    uint64_t ticket, completed;
    uint32_t n_in_flight;       // committed, and not completed
    uint64_t waited[kMaxStreams];
    Span spans[kMaxSpans];      // since the last barrier of the encoder
    uint32_t n_spans;
    uint32_t max_ops, max_in_flight;
    uint64_t max_nbytes;
    double max_seconds;
    uint64_t n_barriers, n_commits, n_waits;
    double gpu_seconds;
};

// Guards all of this. Completion handlers take it, so nobody waits for Python's lock, or for the GPU, while holding it.
extern pthread_mutex_t state_lock;
extern pthread_cond_t state_changed;
extern Stream* streams[kMaxStreams];
extern uint64_t n_launches;

// For each other stream the ticket that a command on these bytes comes after, or 0; false if there is none. Null: a use by the processor.
bool find_waits(const Stream* stream, const Span* spans, uint32_t n, uint64_t tickets[kMaxStreams]);
// Whether a command of the open encoder needs a barrier first; remembers what it touches.
bool needs_barrier(Stream* stream, const Span* spans, uint32_t n);

// --- failures.mm ----------------------------------------------------------------------------------

// The failed launch that should have written what launch `number` touches, or null.
const Failure* failure_before(const Span* spans, uint32_t n, uint64_t number);
uint64_t root_of(const Failure* failure);
// Remembers, until its thread is told, that a launch has no result; takes the launch.
void note_failure(Launch* launch, uint64_t batch, const char* kind, const char* text, uint64_t root);
// Forgets failures that were told, and that no launch under way can depend on.
void forget_told(uint64_t oldest_launch);
bool has_failure(uint64_t number);
PyObject* take_failures(PyObject* module, PyObject* args);
PyObject* describe_failure(PyObject* module, PyObject* args);
PyObject* wait_for_bytes(PyObject* module, PyObject* args);

// --- timing.mm ------------------------------------------------------------------------------------

// Whether somebody asks for times, so that each launch gets a command buffer of its own, after those before it have ended.
bool is_timed(void);
// With the lock held.
void note_time(const Launch* launch, double seconds);
PyObject* ask_for_times(PyObject* module, PyObject* args);
PyObject* take_times(PyObject* module, PyObject* args);

// --- stream.mm ------------------------------------------------------------------------------------

struct StreamObject {
    PyObject_HEAD
    Stream* state;
};

struct Binding {
    BufferObject* buffer;
    PyObject* kept;  // until the launch has ended
    uint64_t offset;
    uint64_t nbytes;
    bool is_written;
};

struct Command {
    PipelineObject* pipeline;
    Binding bindings[kSlots];
    uint32_t indices[kSlots];
    uint32_t count;
    const void* constants;
    uint32_t constants_nbytes, constants_index;  // no constants: 0 bytes
    uint32_t groups[3], threads[3];
    const volatile uint32_t* log;
    PyObject* owner;  // kept until the launch has ended, or null
};

extern PyTypeObject* stream_type;
int add_stream(PyObject* module);

// --- encode.mm ------------------------------------------------------------------------------------

Stream* new_stream(uint32_t max_in_flight, uint32_t max_ops, uint64_t max_nbytes, double max_seconds);
void let_go(Stream* stream);
// With the lock held; a stream goes with its last reference.
void drop_reference(Stream* stream);
// Encode a command. 0, its number and its ticket; 1 if it depends on a failed launch, whose number is given; -1 and a Python error.
int encode(Stream* stream, const Command* command, uint64_t* number, uint64_t* ticket);
int encode_copy(Stream* stream, BufferObject* from, uint64_t at, BufferObject* to, uint64_t to_at, uint64_t nbytes, uint64_t* number, uint64_t* ticket);
uint32_t spans_of(const Command* command, Span* spans);
// Encodes what differs from the command before it in the same encoder, or (null) all of it.
void dispatch(id<MTLComputeCommandEncoder> encoder, const Command* command, const Command* before);

// Several commands that count as one launch.
struct Whole {
    const char* name;
    const Span* spans;
    uint32_t n_spans;
    PyObject* kept;
    uint32_t n_ops;
    bool is_first;  // of its launch: later parts may follow a failed one, and are told when they have ended
};

// As `encode`; the block encodes the commands.
int encode_whole(Stream* stream, const Whole& whole, uint64_t* number, uint64_t* ticket, void (^commands)(id<MTLComputeCommandEncoder>));
uint64_t refuse_whole(const Stream* stream, const Whole& whole, uint64_t root);
// A launch that is not run: it depends on one that failed.
uint64_t refuse(const Stream* stream, const Command* command, uint64_t root);
// All that comes later in the stream waits for a ticket of another one; 0, or -1 and a Python error.
int encode_wait(Stream* stream, Stream* other, uint64_t ticket);
// Commit what was encoded up to a ticket.
void flush_to(Stream* stream, uint64_t ticket);
// Wait without Python's lock until a ticket has completed; Ctrl-C ends the wait, not the work.
int wait_for(Stream* stream, uint64_t ticket);
// A launch that nobody needs any more; what it keeps is for `release_garbage`, since only Python's threads may let go of it.
void throw_away(Launch* launch);
void release_garbage(void);

// --- launch.mm ------------------------------------------------------------------------------------

struct PlanObject {
    PyObject_HEAD
    PipelineObject* pipeline;
    uint32_t indices[kSlots];
    bool is_written[kSlots];
    uint32_t count, constants_index, threads[3];
};

extern PyTypeObject* plan_type;
// What a plan encodes for this memory and these constants, which must live as long as the command; false with a Python error.
bool fill_command(const PlanObject* plan, PyObject* memory, const char* constants, Py_ssize_t constants_nbytes, Command* command);
// Encodes; 0, or -1 and a Python error. A launch that depends on a failed one fails too, or, if it is waited for, raises.
int launch(Stream* stream, const Command* command, bool is_awaited, uint64_t* number, uint64_t* ticket);
int add_launch(PyObject* module);

// --- graph.mm -------------------------------------------------------------------------------------

int add_graph(PyObject* module);

// --- repeat.mm ------------------------------------------------------------------------------------

PyObject* set_default(PyObject* module, PyObject* args);
PyObject* aimed(PyObject* module, PyObject* const* args, Py_ssize_t n);
int add_repeat(PyObject* module);
