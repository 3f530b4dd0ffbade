// What the fake's queues and encoders share: commands, and the items of command buffers.
#pragma once
#import "resources.h"

#include <stdlib.h>
#include <string.h>

// Lets the threads of the GPU look again.
void eas_fake_wake(void);
// Whether a barrier or wait counts; tests leave out the n-th.
BOOL eas_fake_keeps_order(void);
// Whether encoders forget dispatches.
BOOL eas_fake_is_idle(void);

enum CommandKind { kDispatch, kCopy, kFill };
enum State { kWaiting, kRunning, kDone };
enum ItemKind { kEncoder, kSignal, kWait };

template <class T>
struct List {  // of objects, which it keeps
    T __strong* items = nullptr;
    size_t count = 0, capacity = 0;
    void add(T item) {
        if (count == capacity) {
            size_t more = capacity ? 2 * capacity : 8;
            T __strong* grown = static_cast<T __strong*>(calloc(more, sizeof(T)));
            if (count) memcpy(reinterpret_cast<void*>(grown), reinterpret_cast<void*>(items), count * sizeof(T));
            free(items);
            items = grown;
            capacity = more;
        }
        items[count++] = item;
    }
    void remove_at(size_t i) {
        for (; i + 1 < count; i++) items[i] = items[i + 1];
        items[--count] = nil;
    }
    void clear() {
        for (size_t i = 0; i < count; i++) items[i] = nil;
        free(items);
        items = nullptr;
        count = capacity = 0;
    }
    ~List() { clear(); }
};

@class FakeCommandBuffer;

// One dispatch, copy or fill.
@interface FakeCommand : NSObject {
   @public
    CommandKind kind;
    State state;
    unsigned epoch;  // barriers before it in its encoder
    FakePipeline* pipeline;
    FakeBuffer* bound[kFakeSlots];
    NSUInteger offsets[kFakeSlots];
    char* bytes[kFakeSlots];
    uint32_t threadgroup[kFakeSlots], groups[3], threads[3];
    FakeBuffer *source, *target;
    NSUInteger from, to, size;
    uint8_t value;
}
@end

// An encoder's commands, a signal or a wait; runs when all that it comes after is done.
@interface FakeItem : NSObject {
   @public
    ItemKind kind;
    BOOL isDone, isSerial;
    BOOL hasTracked;  // a buffer whose hazards Metal tracks
    List<FakeCommand*> commands;
    List<FakeItem*> after;
    List<FakeFence*> waits, updates;
    FakeEvent* event;
    uint64_t value;
    __unsafe_unretained FakeCommandBuffer* owner;
}
@end

@interface FakeCommandBuffer : NSObject <MTLCommandBuffer> {
   @public
    FakeQueue* queue_;
    MTLCommandBufferStatus status_;
    NSError* error_;
    double start_, end_;
    NSString* label_;
    List<FakeItem*> items_;
    List<id> handlers_;
    __unsafe_unretained NSObject* open_;  // the encoder that has not ended
    BOOL isToldOf_;  // its handlers have returned
}
- (instancetype)initOn:(FakeQueue*)queue;
@end

@interface FakeComputeEncoder : NSObject <MTLComputeCommandEncoder>
- (instancetype)initOn:(FakeCommandBuffer*)buffer item:(FakeItem*)item;
@end

@interface FakeBlitEncoder : NSObject <MTLBlitCommandEncoder>
- (instancetype)initOn:(FakeCommandBuffer*)buffer item:(FakeItem*)item;
@end
