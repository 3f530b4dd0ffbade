// The part of Foundation that the Metal runtime uses, for machines without it. Names and numbers are Apple's.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#define nil nullptr
#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#define YES true
#define NO false

typedef bool BOOL;
typedef long NSInteger;
typedef unsigned long NSUInteger;
typedef double CFTimeInterval;
typedef double NSTimeInterval;

typedef struct _NSRange {
    NSUInteger location;
    NSUInteger length;
} NSRange;

static inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return {location, length}; }

@class NSString;

@protocol NSObject
- (BOOL)respondsToSelector:(SEL)selector;
@end

__attribute__((objc_root_class))
@interface NSObject <NSObject> {
    void* isa_;
}
+ (instancetype)alloc;
+ (instancetype)new;
- (instancetype)init;
- (void)dealloc;
- (BOOL)respondsToSelector:(SEL)selector;
@end

@interface NSString : NSObject
+ (instancetype)stringWithUTF8String:(const char*)text;
@property (readonly) const char* UTF8String;
@property (readonly) NSUInteger length;
@end

@interface NSArray<ObjectType> : NSObject
@property (readonly) NSUInteger count;
- (ObjectType)objectAtIndex:(NSUInteger)index;
@end

@interface NSError : NSObject
@property (readonly) NSInteger code;
@property (readonly, copy) NSString* domain;
@property (readonly, copy) NSString* localizedDescription;
@end
