// Device, buffers, libraries, pipelines, fences and events of the fake.
#import "resources.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#import "commands.h"
#import "foundation.h"

static const NSUInteger kMaxBuffer = 1ull << 40;

@implementation FakeBuffer {
    FakeDevice* device_;
    char* memory_;
    NSUInteger length_;
    MTLResourceOptions options_;
    BOOL isMapped_;
    void (^deallocator_)(void*, NSUInteger);
}
- (instancetype)initOn:(FakeDevice*)device length:(NSUInteger)length options:(MTLResourceOptions)options {
    device_ = device;
    length_ = length;
    options_ = options;
    NSUInteger page = static_cast<NSUInteger>(getpagesize());
    void* memory = mmap(nullptr, (length + page - 1) / page * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nil;
    memory_ = static_cast<char*>(memory);
    isMapped_ = YES;
    [device allocated:static_cast<long>(length)];
    return self;
}
- (instancetype)initOn:(FakeDevice*)device around:(void*)memory length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void*, NSUInteger))deallocator {
    device_ = device;
    memory_ = static_cast<char*>(memory);
    length_ = length;
    options_ = options;
    deallocator_ = deallocator;
    return self;
}
- (id<MTLDevice>)device {
    return device_;
}
- (NSUInteger)length {
    return length_;
}
- (char*)memory {
    return memory_;
}
- (uint64_t)gpuAddress {
    return reinterpret_cast<uint64_t>(memory_);
}
- (void*)contents {
    return options_ & MTLResourceStorageModePrivate ? nullptr : memory_;
}
- (BOOL)isTracked {
    return !(options_ & MTLResourceHazardTrackingModeUntracked);
}
- (void)dealloc {
    NSUInteger page = static_cast<NSUInteger>(getpagesize());
    if (isMapped_) {
        munmap(memory_, (length_ + page - 1) / page * page);
        [device_ allocated:-static_cast<long>(length_)];
    }
    if (deallocator_) deallocator_(memory_, length_);
}
@end

@implementation FakeFence
@end

@implementation FakeEvent {
    uint64_t value_;
}
- (uint64_t)signaledValue {
    return __atomic_load_n(&value_, __ATOMIC_ACQUIRE);
}
- (void)setSignaledValue:(uint64_t)value {
    if (value < self.signaledValue) eas_fake_note("setSignaledValue: %lu is less than before", static_cast<unsigned long>(value));
    [self raiseTo:value];
    eas_fake_wake();
}
- (void)raiseTo:(uint64_t)value {
    uint64_t before = __atomic_load_n(&value_, __ATOMIC_ACQUIRE);
    while (before < value && !__atomic_compare_exchange_n(&value_, &before, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
}
@end

@implementation MTLCompileOptions
@synthesize languageVersion, fastMathEnabled, mathMode, mathFloatingPointFunctions;
- (instancetype)init {
    languageVersion = MTLLanguageVersion4_0;
    fastMathEnabled = YES;
    mathMode = MTLMathModeFast;
    return self;
}
@end

// --- libraries ------------------------------------------------------------------------------------

@implementation FakeFunctionObject {
    FakeFunction function_;
    NSString* name_;
    FakeLibrary* library_;  // a function keeps its code
}
- (instancetype)initWithName:(NSString*)name library:(FakeLibrary*)library number:(uint64_t)number {
    char error[kFakeTextBytes] = "";
    name_ = name;
    library_ = library;
    return eas_fake_hooks.function(number, name.UTF8String, &function_, error) ? nil : self;
}
- (NSString*)name {
    return name_;
}
- (const FakeFunction*)function {
    return &function_;
}
@end

@implementation FakePipeline {
    FakeFunctionObject* function_;
}
- (instancetype)initWith:(FakeFunctionObject*)function {
    function_ = function;
    return self;
}
- (const FakeFunction*)function {
    return function_.function;
}
- (NSUInteger)maxTotalThreadsPerThreadgroup {
    return function_.function->max_threads;
}
- (NSUInteger)threadExecutionWidth {
    return 32;
}
- (NSUInteger)staticThreadgroupMemoryLength {
    return function_.function->static_nbytes;
}
@end

@implementation FakeLibrary {
    uint64_t number_;
}
- (instancetype)initWithNumber:(uint64_t)number {
    number_ = number;
    return self;
}
- (NSArray<NSString*>*)functionNames {
    char text[kFakeTextBytes] = "";
    eas_fake_hooks.names(number_, text);
    NSString* found[256];
    NSUInteger count = 0;
    char* rest = text;
    while (char* name = strsep(&rest, "\n"))
        if (*name && count < 256) found[count++] = [NSString stringWithUTF8String:name];
    return eas_fake_array(found, count);
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name {
    return [[FakeFunctionObject alloc] initWithName:name library:self number:number_];
}
- (void)dealloc {
    if (eas_fake_hooks.forget) eas_fake_hooks.forget(number_);  // not when Python is at its end
}
@end

// --- the device -----------------------------------------------------------------------------------

@implementation FakeDevice {
    NSUInteger allocated_;
}
- (void)allocated:(long)by {
    __atomic_add_fetch(&allocated_, static_cast<NSUInteger>(by), __ATOMIC_RELAXED);
}
- (NSString*)name {
    char text[64];
    snprintf(text, sizeof text, "eas software Metal (apple%u)", eas_fake_family());
    return [NSString stringWithUTF8String:text];
}
- (uint64_t)registryID {
    return 0xEA5;
}
- (BOOL)hasUnifiedMemory {
    return YES;
}
- (BOOL)isHeadless {
    return YES;
}
- (uint64_t)recommendedMaxWorkingSetSize {
    return 8ull << 30;
}
- (NSUInteger)maxBufferLength {
    return kMaxBuffer;
}
- (NSUInteger)maxThreadgroupMemoryLength {
    return 32768;
}
- (NSUInteger)currentAllocatedSize {
    return allocated_;
}
- (BOOL)supportsFamily:(MTLGPUFamily)asked {
    NSInteger apple = asked - 1000;
    return asked == MTLGPUFamilyMetal3 || asked == MTLGPUFamilyMac2 || (apple > 0 && apple <= eas_fake_family());
}
- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count {
    return [[FakeQueue alloc] initOn:self count:count];
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error {
    char text[kFakeTextBytes] = "";
    uint64_t version = options.languageVersion;
    uint32_t language = static_cast<uint32_t>((version >> 16) * 10 + (version & 0xFFFF));
    uint64_t number = 0;
    if (eas_fake_faults(kFaultCompile)) snprintf(text, sizeof text, "a compile error on demand");
    else number = eas_fake_hooks.compile(source.UTF8String, language, static_cast<uint32_t>(options.mathMode), text);
    if (number && eas_fake_faults(kFaultWarning) && error) *error = eas_fake_error("MTLLibraryErrorDomain", 4, "a warning on demand");
    if (number) return [[FakeLibrary alloc] initWithNumber:number];
    if (error) *error = eas_fake_error("MTLLibraryErrorDomain", 3, text);
    return nil;
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error {
    if (function && !eas_fake_faults(kFaultPipeline)) return [[FakePipeline alloc] initWith:(FakeFunctionObject*)function];
    if (error) *error = eas_fake_error("AGXMetalG13X", 3, "the pipeline cannot be made");
    return nil;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
    if (!length || length > kMaxBuffer) {
        eas_fake_note("newBufferWithLength: %lu bytes", length);
        return nil;
    }
    return eas_fake_faults(kFaultAllocation) ? nil : [[FakeBuffer alloc] initOn:self length:length options:options];
}
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)pointer length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void*, NSUInteger))deallocator {
    NSUInteger page = static_cast<NSUInteger>(getpagesize());
    if (reinterpret_cast<NSUInteger>(pointer) % page || !length || length % page) {
        eas_fake_note("newBufferWithBytesNoCopy: %lu bytes at %p are not whole pages", length, pointer);
        return nil;
    }
    if (eas_fake_faults(kFaultAllocation)) return nil;
    return [[FakeBuffer alloc] initOn:self around:pointer length:length options:options deallocator:deallocator];
}
- (id<MTLFence>)newFence {
    return [FakeFence new];
}
- (id<MTLSharedEvent>)newSharedEvent {
    return [FakeEvent new];
}
@end

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static FakeDevice* device;
    pthread_mutex_lock(&lock);
    if (!device) device = [FakeDevice new];
    FakeDevice* found = device;
    pthread_mutex_unlock(&lock);
    return found;
}

NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
    id device = MTLCreateSystemDefaultDevice();
    NSString* one[1] = {device};
    return eas_fake_array(one, 1);
}
