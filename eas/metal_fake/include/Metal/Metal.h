// The part of Metal that the runtime uses, for machines without it. Names and numbers are Apple's; tests/unit/test_metal_facts.py
// compares them with a table of facts (tools/metal_facts.py), so that a misspelt selector cannot pass.
#pragma once
#import <Foundation/Foundation.h>

// As in Apple's <Availability.h>: the macOS whose names this SDK knows. Tests also build with that of macOS 14.
#ifndef __MAC_OS_X_VERSION_MAX_ALLOWED
#define __MAC_OS_X_VERSION_MAX_ALLOWED 260000
#endif

typedef struct {
    NSUInteger width, height, depth;
} MTLSize;

typedef enum : NSUInteger {
    MTLResourceStorageModeShared = 0,
    MTLResourceStorageModePrivate = 32,
    MTLResourceHazardTrackingModeUntracked = 256,
} MTLResourceOptions;

typedef enum : NSUInteger {
    MTLLanguageVersion3_1 = 196609,
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
    MTLLanguageVersion3_2 = 196610,
#endif
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 260000
    MTLLanguageVersion4_0 = 262144,
#endif
} MTLLanguageVersion;
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
typedef enum : NSInteger { MTLMathModeSafe = 0, MTLMathModeRelaxed = 1, MTLMathModeFast = 2 } MTLMathMode;
typedef enum : NSInteger { MTLMathFloatingPointFunctionsFast = 0, MTLMathFloatingPointFunctionsPrecise = 1 } MTLMathFloatingPointFunctions;
#endif
typedef enum : NSUInteger { MTLDispatchTypeSerial = 0, MTLDispatchTypeConcurrent = 1 } MTLDispatchType;
typedef enum : NSUInteger { MTLBarrierScopeBuffers = 1 } MTLBarrierScope;
typedef enum : NSInteger {
    MTLGPUFamilyApple7 = 1007,
    MTLGPUFamilyApple8 = 1008,
    MTLGPUFamilyApple9 = 1009,
    MTLGPUFamilyMac2 = 2002,
    MTLGPUFamilyMetal3 = 5001,
} MTLGPUFamily;

typedef enum : NSUInteger {
    MTLCommandBufferStatusNotEnqueued = 0,
    MTLCommandBufferStatusEnqueued = 1,
    MTLCommandBufferStatusCommitted = 2,
    MTLCommandBufferStatusScheduled = 3,
    MTLCommandBufferStatusCompleted = 4,
    MTLCommandBufferStatusError = 5,
} MTLCommandBufferStatus;

typedef enum : NSUInteger {
    MTLCommandBufferErrorNone = 0,
    MTLCommandBufferErrorInternal = 1,
    MTLCommandBufferErrorTimeout = 2,
    MTLCommandBufferErrorPageFault = 3,
    MTLCommandBufferErrorAccessRevoked = 4,
    MTLCommandBufferErrorNotPermitted = 7,
    MTLCommandBufferErrorOutOfMemory = 8,
    MTLCommandBufferErrorInvalidResource = 9,
    MTLCommandBufferErrorMemoryless = 10,
    MTLCommandBufferErrorDeviceRemoved = 11,
    MTLCommandBufferErrorStackOverflow = 12,
} MTLCommandBufferError;

@protocol MTLCommandBuffer, MTLCommandQueue, MTLDevice;

@protocol MTLResource <NSObject>
@property (readonly) id<MTLDevice> device;
@end

@protocol MTLBuffer <MTLResource>
@property (readonly) NSUInteger length;
@property (readonly) uint64_t gpuAddress;
- (void*)contents;
@end

@protocol MTLFence <NSObject>
@end

@protocol MTLEvent <NSObject>
@end

@protocol MTLSharedEvent <MTLEvent>
@property (readwrite) uint64_t signaledValue;
@end

@interface MTLCompileOptions : NSObject
@property (readwrite) MTLLanguageVersion languageVersion;
@property (readwrite) BOOL fastMathEnabled;
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
@property (readwrite) MTLMathMode mathMode;
@property (readwrite) MTLMathFloatingPointFunctions mathFloatingPointFunctions;
#endif
@end

@protocol MTLFunction <NSObject>
@property (readonly) NSString* name;
@end

@protocol MTLLibrary <NSObject>
@property (readonly) NSArray<NSString*>* functionNames;
- (id<MTLFunction>)newFunctionWithName:(NSString*)name;
@end

@protocol MTLComputePipelineState <NSObject>
@property (readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property (readonly) NSUInteger threadExecutionWidth;
@property (readonly) NSUInteger staticThreadgroupMemoryLength;
@end

@protocol MTLCommandEncoder <NSObject>
- (void)endEncoding;
@end

@protocol MTLComputeCommandEncoder <MTLCommandEncoder>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end

@protocol MTLBlitCommandEncoder <MTLCommandEncoder>
- (void)copyFromBuffer:(id<MTLBuffer>)source sourceOffset:(NSUInteger)from toBuffer:(id<MTLBuffer>)target destinationOffset:(NSUInteger)to size:(NSUInteger)size;
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value;
- (void)updateFence:(id<MTLFence>)fence;
- (void)waitForFence:(id<MTLFence>)fence;
@end

typedef void (^MTLCommandBufferHandler)(id<MTLCommandBuffer>);

@protocol MTLCommandBuffer <NSObject>
@property (readonly) MTLCommandBufferStatus status;
@property (readonly) NSError* error;
@property (readonly) CFTimeInterval GPUStartTime;
@property (readonly) CFTimeInterval GPUEndTime;
@property (copy) NSString* label;
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type;
- (id<MTLBlitCommandEncoder>)blitCommandEncoder;
- (void)addCompletedHandler:(MTLCommandBufferHandler)block;
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)commit;
- (void)waitUntilCompleted;
@end

@protocol MTLCommandQueue <NSObject>
@property (copy) NSString* label;
- (id<MTLCommandBuffer>)commandBuffer;
@end

@protocol MTLDevice <NSObject>
@property (readonly) NSString* name;
@property (readonly) uint64_t registryID;
@property (readonly) BOOL hasUnifiedMemory;
@property (readonly, getter=isHeadless) BOOL headless;
@property (readonly) uint64_t recommendedMaxWorkingSetSize;
@property (readonly) NSUInteger maxBufferLength;
@property (readonly) NSUInteger maxThreadgroupMemoryLength;
@property (readonly) NSUInteger currentAllocatedSize;
- (BOOL)supportsFamily:(MTLGPUFamily)family;
- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count;
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)pointer length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void* pointer, NSUInteger length))deallocator;
- (id<MTLFence>)newFence;
- (id<MTLSharedEvent>)newSharedEvent;
@end

extern "C" id<MTLDevice> MTLCreateSystemDefaultDevice(void);
extern "C" NSArray<id<MTLDevice>>* MTLCopyAllDevices(void);
