// Buffers: memory that processor and GPU share, or the GPU's own.
#include "eas_metal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

PyTypeObject* buffer_type;

// --- which buffer an address lies in --------------------------------------------------------------

static BufferObject** known;  // by address, ascending; Python's lock guards it
static size_t n_known, capacity;

// The first one that starts behind an address.
static size_t place_behind(uint64_t address) {
    size_t lo = 0, hi = n_known;
    while (lo < hi) {
        size_t middle = (lo + hi) / 2;
        if (known[middle]->address <= address) lo = middle + 1;
        else hi = middle;
    }
    return lo;
}

static void remember(BufferObject* buffer) {
    if (n_known == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        known = static_cast<BufferObject**>(realloc(known, capacity * sizeof *known));
    }
    size_t at = place_behind(buffer->address);
    memmove(known + at + 1, known + at, (n_known++ - at) * sizeof *known);
    known[at] = buffer;
}

static void forget(BufferObject* buffer) {
    for (size_t at = place_behind(buffer->address); at--;) {  // one MTLBuffer may have been adopted twice
        if (known[at] != buffer) continue;
        memmove(known + at, known + at + 1, (--n_known - at) * sizeof *known);
        return;
    }
}

BufferObject* buffer_at(uint64_t address, uint64_t nbytes) {
    size_t at = place_behind(address);
    if (!at) return nullptr;
    BufferObject* found = known[at - 1];
    return address - found->address + nbytes <= static_cast<uint64_t>(found->nbytes) ? found : nullptr;
}

PyObject* place_of(PyObject* module, PyObject* args) {
    unsigned long long address, nbytes;
    if (!PyArg_ParseTuple(args, "KK", &address, &nbytes)) return nullptr;
    BufferObject* found = buffer_at(address, nbytes);
    if (!found) Py_RETURN_NONE;
    return Py_BuildValue("(OKK)", found, address - found->address, nbytes);
}

// --- making them ----------------------------------------------------------------------------------

// Addresses for memory that the processor does not see: hazards, views and launches then know one kind of address. A touch is a crash.
static bool reserve(BufferObject* self) {
    uint64_t page = static_cast<uint64_t>(getpagesize()), nbytes = (static_cast<uint64_t>(self->nbytes) + page - 1) / page * page;
    void* range = mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    self->address = reinterpret_cast<uint64_t>(range);
    self->n_reserved = nbytes;
    return true;
}

// Another object of the same MTLBuffer, or null: private memory has one address, however often it was adopted.
static BufferObject* twin_of(const BufferObject* self) {
    for (size_t at = 0; at < n_known; at++)
        if (known[at]->buffer == self->buffer) return known[at];
    return nullptr;
}

static bool find_address(BufferObject* self) {
    self->address = reinterpret_cast<uint64_t>(self->start);
    if (self->start) return true;
    BufferObject* twin = twin_of(self);
    if (!twin) return reserve(self);
    PyObject* both = Py_BuildValue("(OO)", twin, self->owner ? self->owner : Py_None);
    if (!both) return false;
    Py_XDECREF(self->owner);
    self->owner = both;
    self->address = twin->address;
    return true;
}

static PyObject* made(id<MTLBuffer> buffer, PyObject* owner) {
    BufferObject* self = PyObject_New(BufferObject, buffer_type);
    if (!self) return nullptr;
    self->start = static_cast<char*>(buffer.contents);
    self->nbytes = static_cast<Py_ssize_t>(buffer.length);
    self->buffer = (__bridge_retained void*)buffer;
    self->owner = Py_XNewRef(owner);
    self->is_known = false;
    self->n_reserved = 0;
    if (find_address(self)) return reinterpret_cast<PyObject*>(self);
    Py_DECREF(reinterpret_cast<PyObject*>(self));
    return PyErr_Occurred() ? nullptr : raise_error("memory", "the process has no addresses for %zd bytes", static_cast<Py_ssize_t>(buffer.length));
}

// The same; from now on it is what launches find at its addresses.
static PyObject* registered(PyObject* object) {
    BufferObject* self = reinterpret_cast<BufferObject*>(object);
    if (self) {
        self->is_known = true;
        remember(self);
    }
    return object;
}

PyObject* allocate(PyObject* module, PyObject* args) {
    Py_ssize_t nbytes;
    int is_private = 0;
    if (!PyArg_ParseTuple(args, "n|p", &nbytes, &is_private)) return nullptr;
    @autoreleasepool {
        id<MTLDevice> gpu = the_device();
        if (!gpu) return nullptr;
        if (nbytes <= 0) return raise_error("use", "a buffer has at least one byte, not %zd", nbytes);
        MTLResourceOptions options = is_private ? MTLResourceStorageModePrivate : MTLResourceStorageModeShared;
        // Hazards are ours to track, by address: Metal would only see those of one MTLBuffer.
        options = static_cast<MTLResourceOptions>(options | MTLResourceHazardTrackingModeUntracked);
        id<MTLBuffer> buffer = [gpu newBufferWithLength:static_cast<NSUInteger>(nbytes) options:options];
        if (!buffer) return raise_error("memory", "Metal has no %zd bytes for a buffer", nbytes);
        return registered(made(buffer, nullptr));
    }
}

PyObject* wrap(PyObject* module, PyObject* args) {
    unsigned long long address;
    Py_ssize_t nbytes;
    PyObject* owner;
    if (!PyArg_ParseTuple(args, "KnO", &address, &nbytes, &owner)) return nullptr;
    @autoreleasepool {
        id<MTLDevice> gpu = the_device();
        if (!gpu) return nullptr;
        MTLResourceOptions options = static_cast<MTLResourceOptions>(MTLResourceStorageModeShared | MTLResourceHazardTrackingModeUntracked);
        id<MTLBuffer> buffer = [gpu newBufferWithBytesNoCopy:reinterpret_cast<void*>(address) length:static_cast<NSUInteger>(nbytes) options:options deallocator:nil];
        if (!buffer) return raise_error("memory", "Metal cannot share %zd bytes at %#llx", nbytes, address);
        return made(buffer, owner);
    }
}

PyObject* adopt(PyObject* module, PyObject* args) {
    PyObject *handle, *owner;
    if (!PyArg_ParseTuple(args, "OO", &handle, &owner)) return nullptr;
    void* pointer = PyLong_AsVoidPtr(handle);
    if (!pointer) return PyErr_Occurred() ? nullptr : raise_error("use", "there is no MTLBuffer");
    @autoreleasepool {
        return registered(made((__bridge id<MTLBuffer>)pointer, owner));
    }
}

static void buffer_dealloc(PyObject* object) {
    BufferObject* self = reinterpret_cast<BufferObject*>(object);
    if (self->is_known) forget(self);
    if (!is_forked()) {
        @autoreleasepool {
            (void)(__bridge_transfer id)self->buffer;
        }
    }
    if (self->n_reserved) munmap(reinterpret_cast<void*>(self->address), self->n_reserved);
    Py_XDECREF(self->owner);
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int get_memory(PyObject* object, Py_buffer* view, int flags) {
    BufferObject* self = reinterpret_cast<BufferObject*>(object);
    if (!self->start) {
        raise_error("use", "private memory of the GPU is not seen by the processor: x.to(\"cpu\") copies it");
        return -1;
    }
    return PyBuffer_FillInfo(view, object, self->start, self->nbytes, 0, flags);
}

static PyObject* get_nbytes(PyObject* self, void*) { return PyLong_FromSsize_t(reinterpret_cast<BufferObject*>(self)->nbytes); }
static PyObject* get_address(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(reinterpret_cast<BufferObject*>(self)->address); }
static PyObject* get_handle(PyObject* self, void*) { return PyLong_FromVoidPtr(reinterpret_cast<BufferObject*>(self)->buffer); }
static PyObject* get_private(PyObject* self, void*) { return PyBool_FromLong(!reinterpret_cast<BufferObject*>(self)->start); }

static PyGetSetDef buffer_fields[] = {
    {"nbytes", get_nbytes, nullptr, "Bytes of the buffer.", nullptr},
    {"address", get_address, nullptr, "Where it starts; of private memory an address that nobody may touch.", nullptr},
    {"handle", get_handle, nullptr, "The MTLBuffer, for DLPack.", nullptr},
    {"is_private", get_private, nullptr, "Whether only the GPU sees it.", nullptr},
    {},
};

static PyType_Slot buffer_slots[] = {
    {Py_tp_doc, const_cast<char*>("Memory of the GPU.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(buffer_dealloc)},
    {Py_tp_getset, buffer_fields},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_memory)},
    {},
};

static PyType_Spec buffer_spec = {"eas._metal.Buffer", sizeof(BufferObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots};

int add_memory(PyObject* module) {
    buffer_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&buffer_spec));
    return buffer_type ? PyModule_AddType(module, buffer_type) : -1;
}
