// The Objective-C runtime of the fake: the part of the gnustep-2.0 ABI that clang's ARC code calls.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct objc_object;

namespace objc {

struct Selector {
    const char* name;  // interned when its file is loaded: equal names are equal pointers
    const char* types;
};

struct Method {
    void* imp;
    Selector* selector;
    const char* types;
};

struct MethodList {
    MethodList* next;
    int32_t count;
    int64_t stride;
    Method methods[];
};

struct Ivar {
    const char* name;
    const char* type;
    int32_t* offset;  // behind the superclass until the class is loaded, then from the start of the object
    int32_t size;
    int32_t flags;
};

struct IvarList {
    int32_t count;
    int64_t stride;
    Ivar ivars[];
};

struct Table;

struct Class {
    Class* isa;
    Class* super;
    const char* name;
    int64_t live;  // "version" to the compiler, which leaves it 0: the objects that are alive
    int64_t info;
    int64_t nbytes;  // negative until the class is loaded: the bytes of its own variables
    IvarList* ivars;
    MethodList* methods;
    Table* table;  // every method, the inherited ones too
    void* cxx_construct;
    void* cxx_destruct;
    Class* subclasses;
    Class* sibling;
    void* protocols;
    void* extra;
    int64_t abi_version;
    void* properties;
};

// The method that answers a selector, or null.
void* method_of(Class* cls, const Selector* selector);
// The class of that name, or null.
Class* class_named(const char* name);
const char* interned(const char* name);
// Objects that are alive, of one class or (null) of all.
long live_objects(const char* class_name);

}  // namespace objc

extern "C" {
objc_object* eas_objc_new_object(objc::Class* cls);
void eas_objc_free_object(objc_object* object);
// What the runtime has noticed that a program must not do: 0, or a text that stays valid.
const char* eas_objc_mistake();
}
