// One dispatch on the software Metal's engine.
#include "fake.h"

#include "engine.h"

extern "C" int eas_fake_run(const FakeDispatch* d, char* error) {
    if (d->function->is_sanitized) return eas_fake_hooks.run(d, error);
    eas_sim::Launch launch{};
    launch.entry = reinterpret_cast<eas_sim::Entry>(d->function->entry);
    for (unsigned i = 0; i < kFakeSlots; i++) {
        launch.buffers[i] = d->buffers[i];
        launch.threadgroup_nbytes[i] = d->threadgroup_nbytes[i];
    }
    for (unsigned i = 0; i < 3; i++) {
        launch.threads[i] = d->threads[i];
        launch.groups[i] = d->groups[i];
        launch.grid_threads[i] = d->threads[i] * d->groups[i];
    }
    if (eas_fake_hooks.engine(&launch)) return -1;
    if (!launch.error.kind) return 0;
    eas_fake_hooks.explain(d, &launch, error);
    return 1;
}
