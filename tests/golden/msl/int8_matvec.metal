// int8_matvec_kernel(a: ptr<i8>, x: ptr<i8>, y: ptr<f32>, scale: f32, K: i32)
// One threadgroup of 64 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct int8_matvec_kernel_args {
    float scale;
    int K;
};

inline int wrapping_add(int a, int b) {
    return int(uint(a) + uint(b));
}

inline int4 wrapping_add(int4 a, int4 b) {
    return int4(wrapping_add(a.x, b.x), wrapping_add(a.y, b.y), wrapping_add(a.z, b.z), wrapping_add(a.w, b.w));
}

[[max_total_threads_per_threadgroup(64)]]
kernel void int8_matvec_kernel(
    device const char *a [[buffer(0)]],
    device const char *x [[buffer(1)]],
    device float *__restrict y [[buffer(2)]],
    constant int8_matvec_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    threadgroup int parts[2];
    int t = int(tid);
    int row = int(gid.x);
    int product = row * args.K;
    int total = 0;
    for (int first = 0; first < args.K; first = addsat(first, 256)) {
        int at = t * 4;
        int4 total_1 = int4(0);
        int k = first + at;
        int4 left = int4(k < args.K ? *(device const char4 *)(a + (product + k)) : char4(char(0)));
        total_1 = wrapping_add(total_1, left * int4(k < args.K ? *(device const char4 *)(x + k) : char4(char(0))));
        int group_sum = simd_sum(wrapping_add(wrapping_add(total_1.x, total_1.y), wrapping_add(total_1.z, total_1.w)));
        int high = t >> 5;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if ((t & 31) == 0) {
            parts[high] = group_sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int parts_value = parts[0];
        parts_value = wrapping_add(parts_value, parts[1]);
        total = wrapping_add(total, parts_value);
    }
    float product_1 = float(total) * args.scale;
    if (t == 0) {
        y[row] = product_1;
    }
}
