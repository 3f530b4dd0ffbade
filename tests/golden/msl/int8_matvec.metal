// int8_matvec_kernel(a: ptr<i8>, x: ptr<i8>, y: ptr<f32>, scale: f32, K: i32)
// One threadgroup of 64 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct int8_matvec_kernel_args {
    float scale;
    int K;
};

[[max_total_threads_per_threadgroup(64)]]
kernel void int8_matvec_kernel(
    device const char *a [[buffer(0)]],
    device const char *x [[buffer(1)]],
    device float *__restrict y [[buffer(2)]],
    constant int8_matvec_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    threadgroup int total_parts[2];
    int t = int(tid);
    int row = int(gid.x);
    int start_x = row * args.K;
    int at = t * 4;
    int high = t >> 5;
    bool mask = (t & 31) == 0;
    int total = 0;
    for (int first = 0; first < args.K; first = addsat(first, 256)) {
        int k = first + at;
        int4 left = int4(k < args.K ? *(device const char4 *)(a + (start_x + k)) : char4(char(0)));
        int4 product = left * int4(k < args.K ? *(device const char4 *)(x + k) : char4(char(0)));
        int group_sum = simd_sum(int(uint(product.x) + uint(product.y) + (uint(product.z) + uint(product.w))));
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (mask) {
            total_parts[high] = group_sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int total_1 = total_parts[0];
        total = int(uint(total) + (uint(total_1) + uint(total_parts[1])));
    }
    float product = float(total) * args.scale;
    if (t == 0) {
        y[row] = product;
    }
}
