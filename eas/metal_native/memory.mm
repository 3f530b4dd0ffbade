// Buffers: memory that processor and GPU share, or the GPU's own.
#include "eas_metal.h"

PyTypeObject* buffer_type;

static PyObject* made(id<MTLBuffer> buffer, PyObject* owner) {
    BufferObject* self = PyObject_New(BufferObject, buffer_type);
    if (!self) return nullptr;
    self->start = static_cast<char*>(buffer.contents);
    self->nbytes = static_cast<Py_ssize_t>(buffer.length);
    self->address = self->start ? reinterpret_cast<uint64_t>(self->start) : buffer.gpuAddress;
    self->buffer = (__bridge_retained void*)buffer;
    self->owner = Py_XNewRef(owner);
    return reinterpret_cast<PyObject*>(self);
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
        return made(buffer, nullptr);
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
        return made((__bridge id<MTLBuffer>)pointer, owner);
    }
}

static void buffer_dealloc(PyObject* object) {
    BufferObject* self = reinterpret_cast<BufferObject*>(object);
    if (!is_forked()) {
        @autoreleasepool {
            (void)(__bridge_transfer id)self->buffer;
        }
    }
    Py_XDECREF(self->owner);
    PyTypeObject* type = Py_TYPE(object);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int get_memory(PyObject* object, Py_buffer* view, int flags) {
    BufferObject* self = reinterpret_cast<BufferObject*>(object);
    if (!self->start) {
        raise_error("use", "private memory of the GPU is not seen by the processor: copy it");
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
    {"address", get_address, nullptr, "Where it starts, in the memory of the process or, if private, of the GPU.", nullptr},
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
