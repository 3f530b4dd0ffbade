// What must come after what: hazards by address, within an encoder and between streams.
//
// Two MTLBuffers may be the same memory, so Metal's own tracking, which goes by object, is off. Commands of one encoder run at
// the same time unless a barrier stands between them; those of different streams unless one waits for an event of the other.
#include "eas_metal.h"

pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t state_changed = PTHREAD_COND_INITIALIZER;
Stream* streams[kMaxStreams];
uint64_t n_launches;

static bool clash(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end && (a.is_written || b.is_written); }

static bool clash(const Batch* batch, const Span* spans, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (spans[i].end <= batch->begin || batch->end <= spans[i].begin) continue;
        for (const Launch* launch = batch->first; launch; launch = launch->next)
            for (uint32_t k = 0; k < launch->n_spans; k++)
                if (clash(spans[i], launch->spans[k])) return true;
    }
    return false;
}

bool find_waits(const Stream* s, const Span* spans, uint32_t n, uint64_t tickets[kMaxStreams]) {
    bool found = false;
    for (uint32_t i = 0; i < kMaxStreams; i++) {
        const Stream* other = streams[i];
        tickets[i] = 0;
        if (!other || other == s) continue;
        uint64_t waited = s ? s->waited[i] : 0;
        // The newest one that clashes: events of a stream come in order.
        for (const Batch* b = other->newest; b && b->ticket > waited && !tickets[i]; b = b->older)
            if (clash(b, spans, n)) tickets[i] = b->ticket;
        found = found || tickets[i];
    }
    return found;
}

bool needs_barrier(Stream* s, const Span* spans, uint32_t n) {
    bool is_needed = s->n_spans + n > kMaxSpans;
    for (uint32_t i = 0; i < n && !is_needed; i++)
        for (uint32_t k = 0; k < s->n_spans && !is_needed; k++) is_needed = clash(spans[i], s->spans[k]);
    if (is_needed) s->n_spans = 0;
    for (uint32_t i = 0; i < n && s->n_spans < kMaxSpans; i++) s->spans[s->n_spans++] = spans[i];
    return is_needed;
}
