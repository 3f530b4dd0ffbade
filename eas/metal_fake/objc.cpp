// The Objective-C runtime of the fake: classes, messages, reference counts, weak references, pools and blocks.
//
// It is small and strict: a message that a class does not answer, an object that is released too often and a weak
// reference to memory that is gone end in a mistake that the tests read, or in an abort that names the selector.
#include "objc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using objc::Class;
using objc::Method;
using objc::Selector;

// --- names and tables -----------------------------------------------------------------------------

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

namespace {

template <class T>
struct Map {  // open addressing by pointer; only grows, under `load_lock`
    struct Slot {
        const void* key;
        T value;
    };
    Slot* slots = nullptr;
    size_t capacity = 0, count = 0;

    static size_t hash(const void* key) { return (reinterpret_cast<size_t>(key) >> 3) * 0x9E3779B97F4A7C15ull; }

    T* find(const void* key) const {
        if (!capacity) return nullptr;
        for (size_t i = hash(key) & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
            if (slots[i].key == key) return &slots[i].value;
            if (!slots[i].key) return nullptr;
        }
    }

    void put(const void* key, T value) {
        if (T* old = find(key)) {
            *old = value;
            return;
        }
        if (2 * (count + 1) > capacity) grow();
        size_t i = hash(key) & (capacity - 1);
        while (slots[i].key) i = (i + 1) & (capacity - 1);
        slots[i] = {key, value};
        count++;
    }

    void grow() {
        Slot* old = slots;
        size_t n = capacity;
        capacity = n ? 2 * n : 16;
        slots = static_cast<Slot*>(calloc(capacity, sizeof(Slot)));
        count = 0;
        for (size_t i = 0; i < n; i++)
            if (old[i].key) put(old[i].key, old[i].value);
        free(old);
    }
};

}  // namespace

struct objc::Table : Map<void*> {};

static size_t text_hash(const char* text) {
    size_t h = 1469598103934665603ull;
    for (; *text; text++) h = (h ^ static_cast<unsigned char>(*text)) * 1099511628211ull;
    return h;
}

struct Name {
    Name* next;
    const char* text;
};

static Name* names[1024];
static Class* classes[512];
static size_t class_count;

const char* objc::interned(const char* text) {
    Name** bucket = &names[text_hash(text) & 1023];
    for (Name* n = *bucket; n; n = n->next)
        if (!strcmp(n->text, text)) return n->text;
    Name* made = static_cast<Name*>(malloc(sizeof(Name)));
    *made = {*bucket, text};
    *bucket = made;
    return text;
}

Class* objc::class_named(const char* name) {
    for (size_t i = 0; i < class_count; i++)
        if (!strcmp(classes[i]->name, name)) return classes[i];
    return nullptr;
}

void* objc::method_of(Class* cls, const Selector* selector) {
    void** found = cls->table ? cls->table->find(selector->name) : nullptr;
    return found ? *found : nullptr;
}

// --- loading --------------------------------------------------------------------------------------

struct Init {  // what the compiler says about one file
    int64_t version;
    Selector *selectors, *selectors_end;
    Class **classes, **classes_end;
    Class **class_refs, **class_refs_end;
    void *categories, *categories_end, *protocols, *protocols_end, *protocol_refs, *protocol_refs_end;
    void *aliases, *aliases_end, *strings, *strings_end;
};

static void fill_table(Class* cls) {
    cls->table = static_cast<objc::Table*>(calloc(1, sizeof(objc::Table)));
    if (cls->super && cls->super->table) {
        const objc::Table& inherited = *cls->super->table;
        for (size_t i = 0; i < inherited.capacity; i++)
            if (inherited.slots[i].key) cls->table->put(inherited.slots[i].key, inherited.slots[i].value);
    }
    for (objc::MethodList* list = cls->methods; list; list = list->next)
        for (int32_t i = 0; i < list->count; i++) {
            Method& m = list->methods[i];
            m.selector->name = objc::interned(m.selector->name);
            cls->table->put(m.selector->name, m.imp);
        }
}

static void load_class(Class* cls) {
    if (cls->table) return;
    if (cls->super) load_class(cls->super);
    int64_t before = cls->super ? cls->super->nbytes : 0;
    if (cls->nbytes <= 0) cls->nbytes = before - cls->nbytes;
    if (cls->ivars && cls->super)
        for (int32_t i = 0; i < cls->ivars->count; i++) *cls->ivars->ivars[i].offset += static_cast<int32_t>(before);
    Class* meta = cls->isa;
    meta->isa = meta;
    meta->super = cls->super ? cls->super->isa : cls;  // a class answers what objects of the root class answer
    fill_table(cls);
    fill_table(meta);
    if (class_count < sizeof classes / sizeof *classes) classes[class_count++] = cls;
}

extern "C" void __objc_load(Init* init) {
    pthread_mutex_lock(&load_lock);
    for (Selector* s = init->selectors; s != init->selectors_end; s++)
        if (s->name) s->name = objc::interned(s->name);
    for (Class** c = init->classes; c != init->classes_end; c++)
        if (*c) load_class(*c);
    pthread_mutex_unlock(&load_lock);
}

// --- messages -------------------------------------------------------------------------------------

extern "C" [[noreturn]] void eas_objc_unanswered(Class* cls, const Selector* selector) {
    fprintf(stderr, "eas fake: %s does not answer %s\n", cls->name, selector->name);
    abort();
}

extern "C" void* eas_objc_lookup(objc_object* receiver, const Selector* selector) {
    Class* cls = *reinterpret_cast<Class**>(receiver);
    if (void* found = objc::method_of(cls, selector)) return found;
    eas_objc_unanswered(cls, selector);
}

// A message to nil gives 0. All registers that may hold arguments survive the look-up.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl objc_msgSend
    .type objc_msgSend, @function
objc_msgSend:
    testq %rdi, %rdi
    je 1f
    pushq %rbp
    movq %rsp, %rbp
    subq $192, %rsp
    movups %xmm0, (%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)
    movq %rdi, 128(%rsp); movq %rsi, 136(%rsp); movq %rdx, 144(%rsp); movq %rcx, 152(%rsp)
    movq %r8, 160(%rsp); movq %r9, 168(%rsp); movq %rax, 176(%rsp)
    call eas_objc_lookup@PLT
    movq %rax, %r11
    movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7
    movq 128(%rsp), %rdi; movq 136(%rsp), %rsi; movq 144(%rsp), %rdx; movq 152(%rsp), %rcx
    movq 160(%rsp), %r8; movq 168(%rsp), %r9; movq 176(%rsp), %rax
    leave
    jmp *%r11
1:  xorl %eax, %eax
    xorl %edx, %edx
    pxor %xmm0, %xmm0
    ret
    .size objc_msgSend, .-objc_msgSend
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl objc_msgSend
    .type objc_msgSend, %function
objc_msgSend:
    cbz x0, 1f
    stp x29, x30, [sp, #-224]!
    mov x29, sp
    stp q0, q1, [sp, #16]
    stp q2, q3, [sp, #48]
    stp q4, q5, [sp, #80]
    stp q6, q7, [sp, #112]
    stp x0, x1, [sp, #144]
    stp x2, x3, [sp, #160]
    stp x4, x5, [sp, #176]
    stp x6, x7, [sp, #192]
    str x8, [sp, #208]
    bl eas_objc_lookup
    mov x16, x0
    ldp q0, q1, [sp, #16]
    ldp q2, q3, [sp, #48]
    ldp q4, q5, [sp, #80]
    ldp q6, q7, [sp, #112]
    ldp x0, x1, [sp, #144]
    ldp x2, x3, [sp, #160]
    ldp x4, x5, [sp, #176]
    ldp x6, x7, [sp, #192]
    ldr x8, [sp, #208]
    ldp x29, x30, [sp], #224
    br x16
1:  mov x1, #0
    movi d0, #0
    ret
    .size objc_msgSend, .-objc_msgSend
)");
#else
#error "the fake knows x86-64 and aarch64"
#endif

extern "C" void* objc_msg_lookup_super(void** super, const Selector* selector) {  // {receiver, superclass}
    Class* cls = static_cast<Class*>(super[1]);
    if (void* found = objc::method_of(cls, selector)) return found;
    eas_objc_unanswered(cls, selector);
}

// --- objects --------------------------------------------------------------------------------------

namespace {

struct Header {  // stands before every object
    int64_t count;
    uint32_t magic;
    uint32_t has_weak;
    Class* cls;
    uint64_t pad;
};

constexpr uint32_t kAlive = 0x0B1EC7A5, kDead = 0xDEADB10C;
pthread_mutex_t weak_lock = PTHREAD_MUTEX_INITIALIZER;
char mistake_text[256];

Header* header(objc_object* object) { return reinterpret_cast<Header*>(object) - 1; }

void note_mistake(const char* what, Class* cls) {
    if (!mistake_text[0]) snprintf(mistake_text, sizeof mistake_text, "%s of %s", what, cls ? cls->name : "an object");
}

void count_live(Class* cls, long by) { __atomic_add_fetch(&cls->live, by, __ATOMIC_RELAXED); }

}  // namespace

extern "C" const char* eas_objc_mistake() { return mistake_text[0] ? mistake_text : nullptr; }
extern "C" void eas_objc_clear_mistake() { mistake_text[0] = 0; }

long objc::live_objects(const char* class_name) {
    long total = 0;
    for (size_t i = 0; i < class_count; i++)
        if (!class_name || !strcmp(classes[i]->name, class_name)) total += __atomic_load_n(&classes[i]->live, __ATOMIC_RELAXED);
    return total;
}

extern "C" objc_object* eas_objc_new_object(Class* cls) {
    Header* h = static_cast<Header*>(calloc(1, sizeof(Header) + static_cast<size_t>(cls->nbytes) + 8));
    *h = {1, kAlive, 0, cls, 0};
    objc_object* object = reinterpret_cast<objc_object*>(h + 1);
    *reinterpret_cast<Class**>(object) = cls;
    count_live(cls, 1);
    return object;
}

static Selector destruct_selector{nullptr, nullptr}, dealloc_selector{nullptr, nullptr};

static const Selector* named(Selector& s, const char* name) {
    if (!s.name) {
        pthread_mutex_lock(&load_lock);
        s.name = objc::interned(name);
        pthread_mutex_unlock(&load_lock);
    }
    return &s;
}

static void forget_weak(objc_object* object);

extern "C" void eas_objc_free_object(objc_object* object) {
    Header* h = header(object);
    for (Class* cls = h->cls; cls; cls = cls->super)  // each class destroys its own variables
        for (objc::MethodList* list = cls->methods; list; list = list->next)
            for (int32_t i = 0; i < list->count; i++)
                if (list->methods[i].selector->name == named(destruct_selector, ".cxx_destruct")->name)
                    reinterpret_cast<void (*)(objc_object*, const Selector*)>(list->methods[i].imp)(object, &destruct_selector);
    count_live(h->cls, -1);
    h->magic = kDead;
    free(h);
}

static bool is_block(objc_object* object);
extern "C" void* _Block_copy(const void*);
extern "C" void _Block_release(const void*);

extern "C" objc_object* objc_retain(objc_object* object) {
    if (!object) return object;
    if (is_block(object)) return static_cast<objc_object*>(_Block_copy(object));
    Header* h = header(object);
    if (h->magic != kAlive) note_mistake("retain after the end", nullptr);
    __atomic_add_fetch(&h->count, 1, __ATOMIC_RELAXED);
    return object;
}

extern "C" void objc_release(objc_object* object) {
    if (!object) return;
    if (is_block(object)) return _Block_release(object);
    Header* h = header(object);
    if (h->magic != kAlive) return note_mistake("release after the end", nullptr);
    if (__atomic_load_n(&h->has_weak, __ATOMIC_ACQUIRE)) {  // a weak reference may bring it back until the lock is held
        pthread_mutex_lock(&weak_lock);
        int64_t left = __atomic_sub_fetch(&h->count, 1, __ATOMIC_ACQ_REL);
        if (!left) forget_weak(object);
        pthread_mutex_unlock(&weak_lock);
        if (left) return;
    } else if (__atomic_sub_fetch(&h->count, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    void* dealloc = objc::method_of(h->cls, named(dealloc_selector, "dealloc"));
    if (dealloc) reinterpret_cast<void (*)(objc_object*, const Selector*)>(dealloc)(object, &dealloc_selector);
    else eas_objc_free_object(object);
}

extern "C" void objc_storeStrong(objc_object** place, objc_object* value) {
    objc_object* old = *place;
    *place = objc_retain(value);
    objc_release(old);
}

extern "C" void objc_setProperty_nonatomic_copy(objc_object* self, Selector*, objc_object* value, ptrdiff_t offset) {
    objc_storeStrong(reinterpret_cast<objc_object**>(reinterpret_cast<char*>(self) + offset), value);
}
extern "C" void objc_setProperty_nonatomic(objc_object* self, Selector* s, objc_object* value, ptrdiff_t offset) { objc_setProperty_nonatomic_copy(self, s, value, offset); }
extern "C" void objc_setProperty_atomic(objc_object* self, Selector* s, objc_object* value, ptrdiff_t offset) { objc_setProperty_nonatomic_copy(self, s, value, offset); }
extern "C" void objc_setProperty_atomic_copy(objc_object* self, Selector* s, objc_object* value, ptrdiff_t offset) { objc_setProperty_nonatomic_copy(self, s, value, offset); }

// --- autorelease ----------------------------------------------------------------------------------

namespace {

struct Pool {  // the objects of one thread, all of its nested pools in one stack
    objc_object** objects = nullptr;
    size_t count = 0, capacity = 0, depth = 0;
};

thread_local Pool pool;

}  // namespace

extern "C" void* objc_autoreleasePoolPush() {
    pool.depth++;
    return reinterpret_cast<void*>(pool.count + 1);
}

extern "C" void objc_autoreleasePoolPop(void* mark) {
    size_t start = reinterpret_cast<size_t>(mark) - 1;
    while (pool.count > start) objc_release(pool.objects[--pool.count]);
    if (!--pool.depth) {
        free(pool.objects);
        pool = Pool();
    }
}

extern "C" objc_object* objc_autorelease(objc_object* object) {
    if (!object) return object;
    if (!pool.depth) {  // Foundation would only log it: the object is never released
        note_mistake("autorelease without a pool", is_block(object) ? nullptr : header(object)->cls);
        return object;
    }
    if (pool.count == pool.capacity) {
        pool.capacity = pool.capacity ? 2 * pool.capacity : 64;
        pool.objects = static_cast<objc_object**>(realloc(pool.objects, pool.capacity * sizeof(objc_object*)));
    }
    pool.objects[pool.count++] = object;
    return object;
}

extern "C" objc_object* objc_retainAutorelease(objc_object* o) { return objc_autorelease(objc_retain(o)); }
extern "C" objc_object* objc_autoreleaseReturnValue(objc_object* o) { return objc_autorelease(o); }
extern "C" objc_object* objc_retainAutoreleaseReturnValue(objc_object* o) { return objc_autorelease(objc_retain(o)); }
extern "C" objc_object* objc_retainAutoreleasedReturnValue(objc_object* o) { return objc_retain(o); }
extern "C" objc_object* objc_unsafeClaimAutoreleasedReturnValue(objc_object* o) { return o; }

// --- weak references ------------------------------------------------------------------------------

namespace {

struct Weak {
    Weak* next;
    objc_object** place;
};

Map<Weak*> weaks;

void add_weak(objc_object** place, objc_object* object) {
    *place = object;
    if (!object) return;
    __atomic_store_n(&header(object)->has_weak, 1u, __ATOMIC_RELEASE);
    Weak** list = weaks.find(object);
    Weak* made = static_cast<Weak*>(malloc(sizeof(Weak)));
    *made = {list ? *list : nullptr, place};
    weaks.put(object, made);
}

void drop_weak(objc_object** place) {
    objc_object* object = *place;
    Weak** list = object ? weaks.find(object) : nullptr;
    if (!list) return;
    for (Weak** w = list; *w; w = &(*w)->next)
        if ((*w)->place == place) {
            Weak* gone = *w;
            *w = gone->next;
            free(gone);
            return;
        }
}

}  // namespace

static void forget_weak(objc_object* object) {
    Weak** list = weaks.find(object);
    if (!list) return;
    for (Weak* w = *list; w;) {
        *w->place = nullptr;
        Weak* gone = w;
        w = w->next;
        free(gone);
    }
    *list = nullptr;
}

extern "C" objc_object* objc_initWeak(objc_object** place, objc_object* object) {
    pthread_mutex_lock(&weak_lock);
    add_weak(place, object);
    pthread_mutex_unlock(&weak_lock);
    return object;
}

extern "C" objc_object* objc_storeWeak(objc_object** place, objc_object* object) {
    pthread_mutex_lock(&weak_lock);
    drop_weak(place);
    add_weak(place, object);
    pthread_mutex_unlock(&weak_lock);
    return object;
}

extern "C" void objc_destroyWeak(objc_object** place) {
    pthread_mutex_lock(&weak_lock);
    drop_weak(place);
    pthread_mutex_unlock(&weak_lock);
}

extern "C" objc_object* objc_loadWeakRetained(objc_object** place) {
    pthread_mutex_lock(&weak_lock);
    objc_object* found = *place;
    if (found) __atomic_add_fetch(&header(found)->count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&weak_lock);
    return found;
}

extern "C" objc_object* objc_loadWeak(objc_object** place) { return objc_autorelease(objc_loadWeakRetained(place)); }

extern "C" void objc_copyWeak(objc_object** to, objc_object** from) {
    pthread_mutex_lock(&weak_lock);
    add_weak(to, *from);
    pthread_mutex_unlock(&weak_lock);
}

extern "C" void objc_moveWeak(objc_object** to, objc_object** from) {
    objc_copyWeak(to, from);
    objc_destroyWeak(from);
}

// --- blocks ---------------------------------------------------------------------------------------

extern "C" {
void* _NSConcreteStackBlock[32];
void* _NSConcreteMallocBlock[32];
void* _NSConcreteGlobalBlock[32];
}

namespace {

enum : int { kHasHelpers = 1 << 25, kIsObject = 3, kIsBlock = 7, kIsByref = 8, kIsWeak = 16 };

struct Descriptor {
    unsigned long reserved, size;
    void (*copy)(void*, const void*);
    void (*dispose)(const void*);
};

struct Block {
    void* isa;
    int flags, count;
    void* invoke;
    Descriptor* descriptor;
};

struct Byref {
    void* isa;
    Byref* forwarding;
    int flags;
    int size;
    void (*keep)(Byref*, Byref*);
    void (*destroy)(Byref*);
};

struct ByrefHeader {  // before a __block variable that has left the stack
    int64_t count;
    int64_t pad;
};

}  // namespace

static bool is_block(objc_object* object) {
    void* isa = *reinterpret_cast<void**>(object);
    return isa == _NSConcreteStackBlock || isa == _NSConcreteMallocBlock || isa == _NSConcreteGlobalBlock;
}

extern "C" void* _Block_copy(const void* given) {
    if (!given) return nullptr;
    Block* block = static_cast<Block*>(const_cast<void*>(given));
    if (block->isa == _NSConcreteGlobalBlock) return block;
    if (block->isa == _NSConcreteMallocBlock) {
        __atomic_add_fetch(&block->count, 1, __ATOMIC_RELAXED);
        return block;
    }
    Block* made = static_cast<Block*>(malloc(block->descriptor->size));
    memcpy(made, block, block->descriptor->size);
    made->isa = _NSConcreteMallocBlock;
    made->count = 1;
    if (block->flags & kHasHelpers) block->descriptor->copy(made, block);
    return made;
}

extern "C" void _Block_release(const void* given) {
    Block* block = static_cast<Block*>(const_cast<void*>(given));
    if (!block || block->isa != _NSConcreteMallocBlock) return;
    if (__atomic_sub_fetch(&block->count, 1, __ATOMIC_ACQ_REL)) return;
    if (block->flags & kHasHelpers) block->descriptor->dispose(block);
    free(block);
}

extern "C" objc_object* objc_retainBlock(objc_object* block) { return static_cast<objc_object*>(_Block_copy(block)); }

extern "C" void _Block_object_assign(void* place, const void* value, const int kind) {
    if ((kind & 15) == kIsBlock) {
        *static_cast<void**>(place) = _Block_copy(value);
    } else if ((kind & 15) == kIsByref) {
        Byref* source = static_cast<Byref*>(const_cast<void*>(value))->forwarding;
        if (source == value && !(source->flags & (1 << 24))) {  // still on the stack
            ByrefHeader* h = static_cast<ByrefHeader*>(malloc(sizeof(ByrefHeader) + static_cast<size_t>(source->size)));
            h->count = 1;  // the frame's own reference is dropped by _Block_object_dispose
            Byref* made = reinterpret_cast<Byref*>(h + 1);
            memcpy(made, source, static_cast<size_t>(source->size));
            made->forwarding = made;
            made->flags |= 1 << 24;
            if (made->flags & kHasHelpers) made->keep(made, source);
            source->forwarding = made;
            source = made;
        }
        __atomic_add_fetch(&(reinterpret_cast<ByrefHeader*>(source) - 1)->count, 1, __ATOMIC_RELAXED);
        *static_cast<void**>(place) = source;
    } else if ((kind & 15) == kIsObject) {
        *static_cast<objc_object**>(place) = objc_retain(static_cast<objc_object*>(const_cast<void*>(value)));
    } else {
        *static_cast<const void**>(place) = value;
    }
}

extern "C" void _Block_object_dispose(const void* value, const int kind) {
    if ((kind & 15) == kIsBlock) {
        _Block_release(value);
    } else if ((kind & 15) == kIsByref) {
        Byref* byref = static_cast<Byref*>(const_cast<void*>(value))->forwarding;
        if (!(byref->flags & (1 << 24))) return;  // it never left the stack
        ByrefHeader* h = reinterpret_cast<ByrefHeader*>(byref) - 1;
        if (__atomic_sub_fetch(&h->count, 1, __ATOMIC_ACQ_REL)) return;
        if (byref->flags & kHasHelpers) byref->destroy(byref);
        free(h);
    } else if ((kind & 15) == kIsObject) {
        objc_release(static_cast<objc_object*>(const_cast<void*>(value)));
    }
}
