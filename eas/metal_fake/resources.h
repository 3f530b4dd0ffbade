// The fake's own classes behind the protocols of Metal.
#pragma once
#import <Metal/Metal.h>

#include "fake.h"

@class FakeDevice;

@interface FakeBuffer : NSObject <MTLBuffer>
- (instancetype)initOn:(FakeDevice*)device length:(NSUInteger)length options:(MTLResourceOptions)options;
- (instancetype)initOn:(FakeDevice*)device around:(void*)memory length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void*, NSUInteger))deallocator;
@property (readonly) char* memory;  // also of private storage
@property (readonly) BOOL isTracked;
@end

@interface FakeFence : NSObject <MTLFence>
@end

@interface FakeEvent : NSObject <MTLSharedEvent>
- (void)raiseTo:(uint64_t)value;  // by the GPU
@end

@interface FakeFunctionObject : NSObject <MTLFunction>
@property (readonly) const FakeFunction* function;
@end

@interface FakePipeline : NSObject <MTLComputePipelineState>
- (instancetype)initWith:(FakeFunctionObject*)function;
@property (readonly) const FakeFunction* function;
@end

@interface FakeLibrary : NSObject <MTLLibrary>
- (instancetype)initWithNumber:(uint64_t)number;
@end

@interface FakeQueue : NSObject <MTLCommandQueue>
- (instancetype)initOn:(FakeDevice*)device count:(NSUInteger)count;
@end

@interface FakeDevice : NSObject <MTLDevice>
- (void)allocated:(long)by;
@end
