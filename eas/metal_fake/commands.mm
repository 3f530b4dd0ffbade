// Queues and command buffers of the fake, and the threads that execute what was committed.
//
// Metal orders less than people think, and the fake orders no more than it must: dispatches of a concurrent encoder between
// two barriers, encoders without a common fence or tracked buffer, and queues without a common event run in any order
// (EAS_FAKE_SEED chooses it) and at the same time.
#import "commands.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#import "foundation.h"

static const char* kDomain = "MTLCommandBufferErrorDomain";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

@implementation FakeCommand
- (void)dealloc {
    for (char* each : bytes) free(each);
}
@end

@implementation FakeItem
@end

@interface FakeQueue () {
   @public
    FakeDevice* device_;
    NSUInteger limit_, outstanding_;
    BOOL isFaulted_;
    List<FakeItem*> unfinished_;  // in the order of commits
    FakeItem* lastWait_;
    NSString* label_;
}
@end

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// --- what may run ---------------------------------------------------------------------------------

static List<FakeCommandBuffer*> committed;
static BOOL isHeld;  // nothing runs or ends
static uint32_t orderDropped, orderCount;  // tests leave out the n-th thing that orders commands

BOOL eas_fake_keeps_order(void) {
    return __atomic_add_fetch(&orderCount, 1, __ATOMIC_RELAXED) != __atomic_load_n(&orderDropped, __ATOMIC_RELAXED);
}

void eas_fake_drop_order(uint32_t nth) {
    orderCount = 0;
    orderDropped = nth;
}

uint32_t eas_fake_order_count(void) { return orderCount; }

static BOOL isIdle;  // encoders forget what they are told

BOOL eas_fake_is_idle(void) { return isIdle; }

void eas_fake_idle(uint32_t is_idle) { isIdle = is_idle != 0; }

void eas_fake_hold(uint32_t is_held) {
    pthread_mutex_lock(&lock);
    isHeld = is_held != 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static BOOL is_free(FakeItem* item) {
    for (size_t i = 0; i < item->after.count; i++)
        if (!item->after.items[i]->isDone) return NO;
    return YES;
}

static BOOL may_run(FakeItem* item, FakeCommand* command) {
    if (command->state != kWaiting) return NO;
    for (size_t i = 0; i < item->commands.count; i++) {
        FakeCommand* other = item->commands.items[i];
        if (other == command) {
            if (item->isSerial) return YES;
            continue;
        }
        BOOL isBefore = item->isSerial || other->epoch < command->epoch;
        if (isBefore && other->state != kDone) return NO;
    }
    return YES;
}

static FakeCommand* choose(FakeItem** chosen) {
    FakeCommand* found = nil;
    uint64_t seen = 0;
    BOOL isLate = eas_fake_random() % 8 != 0;  // mostly what was encoded last: the order that a missing barrier shows in
    for (size_t b = 0; b < committed.count; b++) {
        FakeCommandBuffer* buffer = committed.items[b];
        for (size_t i = 0; i < buffer->items_.count; i++) {
            FakeItem* item = buffer->items_.items[i];
            if (item->kind != kEncoder || item->isDone || !is_free(item)) continue;
            for (size_t c = 0; c < item->commands.count; c++)
                if (may_run(item, item->commands.items[c]) && (isLate || eas_fake_random() % ++seen == 0)) {
                    found = item->commands.items[c];
                    *chosen = item;
                }
        }
    }
    return found;
}

// --- running --------------------------------------------------------------------------------------

// What has not begun is left out; signals, too: who waits for them waits for ever, unless the processor signals.
static void fail(FakeCommandBuffer* buffer, NSInteger code, const char* text) {
    if (buffer->error_) return;
    buffer->error_ = eas_fake_error(kDomain, code, text);
    for (size_t i = 0; i < buffer->items_.count; i++) {
        FakeItem* item = buffer->items_.items[i];
        for (size_t c = 0; c < item->commands.count; c++)
            if (item->commands.items[c]->state == kWaiting) item->commands.items[c]->state = kDone;
    }
}

static int execute(FakeCommand* c, char* error) {
    if (c->kind == kCopy) {
        memmove(c->target.memory + c->to, c->source.memory + c->from, c->size);
        return 0;
    }
    if (c->kind == kFill) {
        memset(c->target.memory + c->to, c->value, c->size);
        return 0;
    }
    FakeDispatch d{};
    d.function = c->pipeline.function;
    for (unsigned i = 0; i < kFakeSlots; i++) {
        d.buffers[i] = c->bytes[i] ? c->bytes[i] : c->bound[i] ? c->bound[i].memory + c->offsets[i] : nullptr;
        d.nbytes[i] = c->bytes[i] ? kFakeMaxConstant : c->bound[i] ? c->bound[i].length - c->offsets[i] : 0;
        d.threadgroup_nbytes[i] = c->threadgroup[i];
    }
    for (unsigned i = 0; i < 3; i++) {
        d.groups[i] = c->groups[i];
        d.threads[i] = c->threads[i];
    }
    return eas_fake_run(&d, error);
}

static void settle(FakeItem* item) {
    if (!is_free(item)) return;
    for (size_t c = 0; c < item->commands.count; c++)
        if (item->commands.items[c]->state != kDone) return;
    if (item->kind == kWait && item->event.signaledValue < item->value) return;
    if (item->kind == kSignal && !item->owner->error_) [item->event raiseTo:item->value];
    item->isDone = YES;
    item->after.clear();  // else an item would keep all that were ever before it
}

static BOOL is_first_of_queue(size_t at) {
    for (size_t b = 0; b < at; b++)
        if (committed.items[b]->queue_ == committed.items[at]->queue_) return NO;
    return YES;
}

// Tells what has ended; true if anything did.
static BOOL complete_some() {
    for (size_t b = 0; b < committed.count; b++) {
        FakeCommandBuffer* buffer = committed.items[b];
        BOOL all = YES;
        for (size_t i = 0; i < buffer->items_.count; i++) {
            FakeItem* item = buffer->items_.items[i];
            if (!item->isDone) settle(item);
            all = all && item->isDone;
        }
        if (!all || !is_first_of_queue(b)) continue;
        FakeQueue* queue = buffer->queue_;
        committed.remove_at(b);
        for (size_t i = queue->unfinished_.count; i--;)
            if (queue->unfinished_.items[i]->isDone && queue->unfinished_.items[i]->owner == buffer) queue->unfinished_.remove_at(i);
        buffer->end_ = now();
        buffer->status_ = buffer->error_ ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
        List<id> handlers;
        for (size_t i = 0; i < buffer->handlers_.count; i++) handlers.add(buffer->handlers_.items[i]);
        buffer->handlers_.clear();
        pthread_mutex_unlock(&lock);
        @autoreleasepool {
            for (size_t i = 0; i < handlers.count; i++) ((MTLCommandBufferHandler)handlers.items[i])(buffer);
            handlers.clear();
        }
        pthread_mutex_lock(&lock);
        buffer->items_.clear();
        buffer->isToldOf_ = YES;
        queue->outstanding_--;
        pthread_cond_broadcast(&changed);
        return YES;
    }
    return NO;
}

static void run_one(FakeItem* item, FakeCommand* command) {
    FakeCommandBuffer* buffer = item->owner;
    command->state = kRunning;
    if (!buffer->start_) buffer->start_ = now();
    pthread_mutex_unlock(&lock);
    char error[kFakeTextBytes] = "";
    NSInteger code = 0;
    if (eas_fake_faults(kFaultPage)) code = MTLCommandBufferErrorPageFault;
    else if (eas_fake_faults(kFaultTimeout)) code = MTLCommandBufferErrorTimeout;
    else if (eas_fake_faults(kFaultOutOfMemory)) code = MTLCommandBufferErrorOutOfMemory;
    else if (eas_fake_faults(kFaultRemoved)) code = MTLCommandBufferErrorDeviceRemoved;
    else if (execute(command, error)) code = MTLCommandBufferErrorInternal;
    pthread_mutex_lock(&lock);
    command->state = kDone;
    if (code) {
        fail(buffer, code, error[0] ? error : "a fault on demand");
        if (code == MTLCommandBufferErrorPageFault || code == MTLCommandBufferErrorTimeout || code == MTLCommandBufferErrorDeviceRemoved)
            buffer->queue_->isFaulted_ = YES;
    }
}

static void* gpu(void*) {
    pthread_mutex_lock(&lock);
    while (true) {
        @autoreleasepool {
            FakeItem* item = nil;
            FakeCommand* command = isHeld ? nil : choose(&item);
            if (command) {
                run_one(item, command);
                pthread_cond_broadcast(&changed);
            } else if (isHeld || !complete_some()) {
                pthread_cond_wait(&changed, &lock);
            }
        }
    }
    return nullptr;
}

static void start_gpu() {
    static BOOL isRunning;
    if (isRunning) return;
    isRunning = YES;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, gpu, nullptr);
        pthread_detach(thread);
    }
}

void eas_fake_wake(void) {
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

// --- what must come after what --------------------------------------------------------------------

static BOOL writes(FakeCommand* c, unsigned slot) {
    const FakeFunction* f = c->pipeline.function;
    for (unsigned i = 0; i < f->n_parameters; i++)
        if (f->parameters[i].kind == 0 && f->parameters[i].index == slot) return !f->parameters[i].is_const;
    return NO;
}

// 0: the command does not touch the buffer, 1: reads, 2: may write.
static int touches(FakeCommand* c, FakeBuffer* buffer) {
    if (c->kind != kDispatch) return c->target == buffer ? 2 : c->source == buffer ? 1 : 0;
    int most = 0;
    for (unsigned i = 0; i < kFakeSlots; i++)
        if (c->bound[i] == buffer) most = writes(c, i) ? 2 : most ? most : 1;
    return most;
}

static BOOL share_tracked(FakeItem* a, FakeItem* b) {
    if (!a->hasTracked || !b->hasTracked) return NO;
    for (size_t i = 0; i < a->commands.count; i++) {
        FakeCommand* c = a->commands.items[i];
        FakeBuffer* buffers[kFakeSlots + 2];
        unsigned count = 0;
        for (FakeBuffer* each : c->bound)
            if (each) buffers[count++] = each;
        if (c->source) buffers[count++] = c->source;
        if (c->target) buffers[count++] = c->target;
        for (unsigned k = 0; k < count; k++)
            for (size_t j = 0; buffers[k].isTracked && j < b->commands.count; j++) {
                int other = touches(b->commands.items[j], buffers[k]);
                if (other && (other == 2 || touches(c, buffers[k]) == 2)) return YES;
            }
    }
    return NO;
}

static BOOL share_fence(FakeItem* earlier, FakeItem* later) {
    for (size_t i = 0; i < earlier->updates.count; i++)
        for (size_t j = 0; j < later->waits.count; j++)
            if (earlier->updates.items[i] == later->waits.items[j]) return YES;
    return NO;
}

static void place(FakeQueue* queue, FakeItem* item) {
    if (queue->lastWait_ && !queue->lastWait_->isDone) item->after.add(queue->lastWait_);
    for (size_t b = 0; b < committed.count; b++)
        for (size_t i = 0; i < committed.items[b]->items_.count; i++) {
            FakeItem* earlier = committed.items[b]->items_.items[i];
            BOOL isOwn = earlier->owner->queue_ == queue;
            BOOL ordered = isOwn && (item->kind != kEncoder || (earlier->kind == kEncoder && share_tracked(earlier, item)));
            if (!earlier->isDone && (ordered || share_fence(earlier, item))) item->after.add(earlier);
        }
    for (size_t i = 0; i < item->owner->items_.count; i++) {  // earlier in the same command buffer
        FakeItem* earlier = item->owner->items_.items[i];
        if (earlier == item) break;
        BOOL ordered = item->kind != kEncoder || (earlier->kind == kEncoder && share_tracked(earlier, item));
        if (ordered || share_fence(earlier, item)) item->after.add(earlier);
    }
    if (item->kind == kWait) queue->lastWait_ = item;
    if (item->kind == kEncoder && queue->lastWait_ && queue->lastWait_->isDone) queue->lastWait_ = nil;
}

// --- queues and command buffers -------------------------------------------------------------------

@implementation FakeQueue
- (instancetype)initOn:(FakeDevice*)device count:(NSUInteger)count {
    device_ = device;
    limit_ = count;
    return self;
}
- (NSString*)label {
    return label_;
}
- (void)setLabel:(NSString*)label {
    label_ = label;
}
- (id<MTLCommandBuffer>)commandBuffer {
    pthread_mutex_lock(&lock);
    while (outstanding_ >= limit_) {
        BOOL moves = NO;
        for (size_t b = 0; b < committed.count; b++) moves = moves || committed.items[b]->queue_ == self;
        if (!moves) {  // nobody will ever commit one of them while we wait here
            eas_fake_note("commandBuffer: %lu command buffers are open, and none is committed", outstanding_);
            break;
        }
        pthread_cond_wait(&changed, &lock);
    }
    outstanding_++;
    pthread_mutex_unlock(&lock);
    return [[FakeCommandBuffer alloc] initOn:self];
}
@end

@implementation FakeCommandBuffer
- (instancetype)initOn:(FakeQueue*)queue {
    queue_ = queue;
    return self;
}
- (void)dealloc {
    if (status_ != MTLCommandBufferStatusNotEnqueued) return;
    pthread_mutex_lock(&lock);
    queue_->outstanding_--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
- (MTLCommandBufferStatus)status {
    pthread_mutex_lock(&lock);
    MTLCommandBufferStatus found = status_;
    pthread_mutex_unlock(&lock);
    return found;
}
- (NSError*)error {
    pthread_mutex_lock(&lock);
    NSError* found = error_;
    pthread_mutex_unlock(&lock);
    return found;
}
- (CFTimeInterval)GPUStartTime {
    return start_;
}
- (CFTimeInterval)GPUEndTime {
    return end_;
}
- (NSString*)label {
    return label_;
}
- (void)setLabel:(NSString*)label {
    label_ = label;
}
- (FakeItem*)itemOf:(ItemKind)kind for:(const char*)what {
    if (status_ != MTLCommandBufferStatusNotEnqueued) eas_fake_note("%s after commit", what);
    if (open_) eas_fake_note("%s before the encoder has ended", what);
    FakeItem* item = [FakeItem new];
    item->kind = kind;
    item->owner = self;
    items_.add(item);
    return item;
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type {
    FakeItem* item = [self itemOf:kEncoder for:"computeCommandEncoderWithDispatchType:"];
    item->isSerial = type == MTLDispatchTypeSerial;
    FakeComputeEncoder* encoder = [[FakeComputeEncoder alloc] initOn:self item:item];
    open_ = encoder;
    return encoder;
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
    FakeItem* item = [self itemOf:kEncoder for:"blitCommandEncoder"];
    item->isSerial = YES;
    FakeBlitEncoder* encoder = [[FakeBlitEncoder alloc] initOn:self item:item];
    open_ = encoder;
    return encoder;
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
    if (status_ != MTLCommandBufferStatusNotEnqueued) eas_fake_note("addCompletedHandler: after commit");
    handlers_.add(block);
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
    FakeItem* item = [self itemOf:kSignal for:"encodeSignalEvent:value:"];
    item->event = (FakeEvent*)event;
    item->value = value;
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
    if (!eas_fake_keeps_order()) return;
    FakeItem* item = [self itemOf:kWait for:"encodeWaitForEvent:value:"];
    item->event = (FakeEvent*)event;
    item->value = value;
}
- (void)commit {
    if (status_ != MTLCommandBufferStatusNotEnqueued) return eas_fake_note("commit: a second time");
    if (open_) eas_fake_note("commit: the encoder has not ended");
    pthread_mutex_lock(&lock);
    start_gpu();
    status_ = MTLCommandBufferStatusCommitted;
    if (queue_->isFaulted_) fail(self, MTLCommandBufferErrorAccessRevoked, "ignored for causing prior GPU errors");
    for (size_t i = 0; i < items_.count; i++) {
        place(queue_, items_.items[i]);
        queue_->unfinished_.add(items_.items[i]);
    }
    committed.add(self);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
- (void)waitUntilCompleted {
    if (status_ == MTLCommandBufferStatusNotEnqueued) return eas_fake_note("waitUntilCompleted: before commit");
    pthread_mutex_lock(&lock);
    while (!isToldOf_) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
@end
