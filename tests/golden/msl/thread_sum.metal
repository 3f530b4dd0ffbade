// thread_sum_kernel(x: ptr<f32>, out: ptr<f32>, n: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct thread_sum_kernel_args {
    int n;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void thread_sum_kernel(
    device const float *x [[buffer(0)]],
    device float *__restrict out [[buffer(1)]],
    constant thread_sum_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int t = int(tid);
    int program_id = int(gid.x);
    int i = program_id * 256 + t;
    threadgroup float shared[256];
    shared[t] = i < args.n ? x[i] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 128) {
        shared[t] = shared[t] + shared[t + 128];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 64) {
        shared[t] = shared[t] + shared[t + 64];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 32) {
        shared[t] = shared[t] + shared[t + 32];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 16) {
        shared[t] = shared[t] + shared[t + 16];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 8) {
        shared[t] = shared[t] + shared[t + 8];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 4) {
        shared[t] = shared[t] + shared[t + 4];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 2) {
        shared[t] = shared[t] + shared[t + 2];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t < 1) {
        shared[t] = shared[t] + shared[1];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t == 0) {
        out[program_id] = shared[0];
    }
}
