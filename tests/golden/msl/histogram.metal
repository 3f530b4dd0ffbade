// histogram_kernel(x: ptr<i32>, counts: ptr<i32>, n: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct histogram_kernel_args {
    int n;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void histogram_kernel(
    device const int *x [[buffer(0)]],
    device int *__restrict counts [[buffer(1)]],
    constant histogram_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int t = int(tid);
    int start_x = int(gid.x) * 1024;
    int at = t * 4;
    int i = start_x + at;
    int4 x_value = i < args.n ? *(device const int4 *)(x + i) : int4(0);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int at_1 = at + r;
        int i_1 = start_x + at_1;
        if (i_1 < args.n) atomic_fetch_add_explicit((device atomic_int *)(counts + x_value[r]), 1, memory_order_relaxed);
    }
}
