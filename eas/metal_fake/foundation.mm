// NSObject, NSString, NSArray and NSError of the fake.
#import "foundation.h"

#include <stdlib.h>
#include <string.h>

#include "objc.h"

@implementation NSObject
+ (instancetype)alloc {
    return (__bridge_transfer NSObject*)static_cast<void*>(eas_objc_new_object((__bridge objc::Class*)self));
}
+ (instancetype)new {
    return [[self alloc] init];
}
- (instancetype)init {
    return self;
}
- (void)dealloc {
    eas_objc_free_object((__bridge objc_object*)self);
}
- (BOOL)respondsToSelector:(SEL)selector {
    return objc::method_of(static_cast<objc::Class*>(isa_), reinterpret_cast<const objc::Selector*>(selector)) != nullptr;
}
@end

@implementation NSString {
    char* text_;
}
+ (instancetype)stringWithUTF8String:(const char*)text {
    NSString* made = [NSString new];
    made->text_ = strdup(text);
    return made;
}
- (const char*)UTF8String {
    return text_;
}
- (NSUInteger)length {
    return strlen(text_);
}
- (void)dealloc {
    free(text_);
}
@end

@implementation NSArray {
    __strong id* objects_;
    NSUInteger count_;
}
- (NSUInteger)count {
    return count_;
}
- (id)objectAtIndex:(NSUInteger)index {
    return objects_[index];
}
- (void)dealloc {
    for (NSUInteger i = 0; i < count_; i++) objects_[i] = nil;
    free(objects_);
}
- (instancetype)initWithStrings:(NSString* const*)strings count:(NSUInteger)count {
    objects_ = static_cast<__strong id*>(calloc(count ? count : 1, sizeof(id)));
    count_ = count;
    for (NSUInteger i = 0; i < count; i++) objects_[i] = strings[i];
    return self;
}
@end

@implementation NSError {
    NSInteger code_;
    NSString* domain_;
    NSString* text_;
}
- (NSInteger)code {
    return code_;
}
- (NSString*)domain {
    return domain_;
}
- (NSString*)localizedDescription {
    return text_;
}
- (instancetype)initWithDomain:(NSString*)domain code:(NSInteger)code text:(NSString*)text {
    code_ = code;
    domain_ = domain;
    text_ = text;
    return self;
}
@end

NSError* eas_fake_error(const char* domain, NSInteger code, const char* text) {
    return [[NSError alloc] initWithDomain:[NSString stringWithUTF8String:domain] code:code text:[NSString stringWithUTF8String:text]];
}

NSArray* eas_fake_array(NSString* const* strings, NSUInteger count) {
    return [[NSArray alloc] initWithStrings:strings count:count];
}
