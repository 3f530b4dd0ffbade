// Encoders of the fake: what Metal's validation layer would refuse is noted, the rest becomes commands.
#import "commands.h"

@implementation FakeComputeEncoder {
    FakeCommandBuffer* buffer_;
    FakeItem* item_;
    FakePipeline* pipeline_;
    const FakeFunction* function_;  // of the pipeline
    FakeBuffer* bound_[kFakeSlots];
    NSUInteger offsets_[kFakeSlots];
    char* bytes_[kFakeSlots];
    NSUInteger lengths_[kFakeSlots];
    uint32_t threadgroup_[kFakeSlots];
    unsigned epoch_, used_;  // slots below `used_` may be bound
    BOOL isEnded_;
}
- (instancetype)initOn:(FakeCommandBuffer*)buffer item:(FakeItem*)item {
    buffer_ = buffer;
    item_ = item;
    return self;
}
- (void)dealloc {
    if (!isEnded_) eas_fake_note("an encoder went without endEncoding");
    for (char* each : bytes_) free(each);
}
- (BOOL)mayUse:(NSUInteger)index of:(NSUInteger)limit for:(const char*)what {
    if (isEnded_) eas_fake_note("%s after endEncoding", what);
    if (index >= limit) eas_fake_note("%s: index %lu of %lu", what, index, limit);
    return !isEnded_ && index < limit;
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
    if (![self mayUse:0 of:1 for:"setComputePipelineState:"]) return;
    if (!state) eas_fake_note("setComputePipelineState: nil");
    pipeline_ = (FakePipeline*)state;
    function_ = pipeline_.function;
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
    if (![self mayUse:index of:kFakeSlots for:"setBuffer:offset:atIndex:"]) return;
    FakeBuffer* given = (FakeBuffer*)buffer;
    if (given && offset >= given.length) return eas_fake_note("setBuffer: offset %lu of %lu bytes", offset, given.length);
    free(bytes_[index]);
    bytes_[index] = nullptr;
    bound_[index] = given;
    offsets_[index] = offset;
    if (index >= used_) used_ = static_cast<unsigned>(index) + 1;
    if (given.isTracked) item_->hasTracked = YES;
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
    if (![self mayUse:index of:kFakeSlots for:"setBytes:length:atIndex:"]) return;
    if (!length || length > kFakeMaxConstant) return eas_fake_note("setBytes: %lu bytes; 1 to %d are possible", length, kFakeMaxConstant);
    free(bytes_[index]);
    bytes_[index] = static_cast<char*>(malloc(length));
    memcpy(bytes_[index], bytes, length);
    lengths_[index] = length;
    bound_[index] = nil;
    if (index >= used_) used_ = static_cast<unsigned>(index) + 1;
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
    if (![self mayUse:index of:kFakeSlots for:"setThreadgroupMemoryLength:atIndex:"]) return;
    if (length % 16) return eas_fake_note("setThreadgroupMemoryLength: %lu is no multiple of 16", length);
    threadgroup_[index] = static_cast<uint32_t>(length);
    if (index >= used_) used_ = static_cast<unsigned>(index) + 1;
}
- (BOOL)isComplete {
    const FakeFunction* f = function_;
    uint64_t total = f->static_nbytes;
    for (unsigned i = 0; i < f->n_parameters; i++) {
        const FakeParameter& p = f->parameters[i];
        if (p.kind == 1) {
            total += threadgroup_[p.index];
            if (!threadgroup_[p.index]) eas_fake_note("threadgroup memory %u has no length", p.index);
            continue;
        }
        if (!bytes_[p.index] && !bound_[p.index]) {
            eas_fake_note("buffer %u is not bound", p.index);
            return NO;
        }
        if (bytes_[p.index] && lengths_[p.index] < p.nbytes) eas_fake_note("buffer %u has %lu bytes, the kernel reads %u", p.index, lengths_[p.index], p.nbytes);
        if (bound_[p.index] && p.align && offsets_[p.index] % p.align) eas_fake_note("buffer %u starts at %lu, which is no multiple of %u", p.index, offsets_[p.index], p.align);
        if (bound_[p.index] && p.is_const && offsets_[p.index] + p.nbytes > bound_[p.index].length) eas_fake_note("buffer %u is too short", p.index);
    }
    if (total > 32768) eas_fake_note("%lu bytes of threadgroup memory", static_cast<unsigned long>(total));
    return YES;
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads {
    if (eas_fake_is_idle() || (isEnded_ && ![self mayUse:0 of:1 for:"dispatchThreadgroups:threadsPerThreadgroup:"])) return;
    if (!pipeline_) return eas_fake_note("dispatchThreadgroups: no pipeline");
    NSUInteger count = threads.width * threads.height * threads.depth;
    if (!count || count > function_->max_threads) return eas_fake_note("dispatchThreadgroups: %lu threads of a threadgroup", count);
    if (!groups.width || !groups.height || !groups.depth) return eas_fake_note("dispatchThreadgroups: an empty grid");
    if (![self isComplete]) return;
    FakeCommand* c = [FakeCommand alloc];
    c->kind = kDispatch;
    c->epoch = epoch_;
    c->pipeline = pipeline_;
    for (unsigned i = 0; i < used_; i++) {
        c->bound[i] = bound_[i];
        c->offsets[i] = offsets_[i];
        if (bytes_[i]) c->bytes[i] = static_cast<char*>(memcpy(malloc(lengths_[i]), bytes_[i], lengths_[i]));
        c->threadgroup[i] = threadgroup_[i];
    }
    const NSUInteger sizes[2][3] = {{groups.width, groups.height, groups.depth}, {threads.width, threads.height, threads.depth}};
    for (unsigned i = 0; i < 3; i++) {
        c->groups[i] = static_cast<uint32_t>(sizes[0][i]);
        c->threads[i] = static_cast<uint32_t>(sizes[1][i]);
    }
    item_->commands.add(c);
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
    if (![self mayUse:0 of:1 for:"memoryBarrierWithScope:"]) return;
    if (scope & MTLBarrierScopeBuffers && eas_fake_keeps_order()) epoch_++;
}
- (void)updateFence:(id<MTLFence>)fence {
    if ([self mayUse:0 of:1 for:"updateFence:"]) item_->updates.add((FakeFence*)fence);
}
- (void)waitForFence:(id<MTLFence>)fence {
    if ([self mayUse:0 of:1 for:"waitForFence:"] && eas_fake_keeps_order()) item_->waits.add((FakeFence*)fence);
}
- (void)endEncoding {
    if (isEnded_) return eas_fake_note("endEncoding: a second time");
    isEnded_ = YES;
    buffer_->open_ = nil;
}
@end

@implementation FakeBlitEncoder {
    FakeCommandBuffer* buffer_;
    FakeItem* item_;
    BOOL isEnded_;
}
- (instancetype)initOn:(FakeCommandBuffer*)buffer item:(FakeItem*)item {
    buffer_ = buffer;
    item_ = item;
    return self;
}
- (void)dealloc {
    if (!isEnded_) eas_fake_note("an encoder went without endEncoding");
}
- (BOOL)hasRange:(NSRange)range in:(FakeBuffer*)buffer for:(const char*)what {
    if (isEnded_) eas_fake_note("%s after endEncoding", what);
    BOOL fits = buffer && range.length && range.location + range.length <= buffer.length;
    if (!fits) eas_fake_note("%s: %lu bytes from %lu on do not fit", what, range.length, range.location);
    return fits && !isEnded_;
}
- (void)copyFromBuffer:(id<MTLBuffer>)source sourceOffset:(NSUInteger)from toBuffer:(id<MTLBuffer>)target destinationOffset:(NSUInteger)to size:(NSUInteger)size {
    const char* what = "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:";
    if (![self hasRange:NSMakeRange(from, size) in:(FakeBuffer*)source for:what] || ![self hasRange:NSMakeRange(to, size) in:(FakeBuffer*)target for:what]) return;
    if (from % 4 || to % 4 || size % 4) eas_fake_note("%s: offsets and size are multiples of 4", what);
    FakeCommand* c = [FakeCommand new];
    c->kind = kCopy;
    c->source = (FakeBuffer*)source;
    c->target = (FakeBuffer*)target;
    c->from = from;
    c->to = to;
    c->size = size;
    item_->hasTracked = item_->hasTracked || c->source.isTracked || c->target.isTracked;
    item_->commands.add(c);
}
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
    if (![self hasRange:range in:(FakeBuffer*)buffer for:"fillBuffer:range:value:"]) return;
    FakeCommand* c = [FakeCommand new];
    c->kind = kFill;
    c->target = (FakeBuffer*)buffer;
    c->to = range.location;
    c->size = range.length;
    c->value = value;
    item_->hasTracked = item_->hasTracked || c->target.isTracked;
    item_->commands.add(c);
}
- (void)updateFence:(id<MTLFence>)fence {
    item_->updates.add((FakeFence*)fence);
}
- (void)waitForFence:(id<MTLFence>)fence {
    if (eas_fake_keeps_order()) item_->waits.add((FakeFence*)fence);
}
- (void)endEncoding {
    if (isEnded_) return eas_fake_note("endEncoding: a second time");
    isEnded_ = YES;
    buffer_->open_ = nil;
}
@end
