// layer_norm_kernel(x: ptr<f32>, weight: ptr<f32>, bias: ptr<f32>, y: ptr<f32>, n_cols: i32, eps: f32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct layer_norm_kernel_args {
    int n_cols;
    float eps;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void layer_norm_kernel(
    device const float *x [[buffer(0)]],
    device const float *weight [[buffer(1)]],
    device const float *bias [[buffer(2)]],
    device float *__restrict y [[buffer(3)]],
    constant layer_norm_kernel_args &args [[buffer(4)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    threadgroup float total_parts[8];
    threadgroup float total_parts_1[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    float converted = float(args.n_cols);
    int at = t * 4;
    bool mask = at < args.n_cols;
    int sum = start + at;
    float4 values = mask ? *(device const float4 *)(x + sum) : float4(0.0f);
    float group_sum = simd_sum(values.x + values.y + (values.z + values.w));
    int high = t >> 5;
    bool mask_1 = (t & 31) == 0;
    if (mask_1) {
        total_parts[high] = group_sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = total_parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        total += total_parts[part];
    }
    float mean = total / converted;
    float4 centred = mask ? values - mean : float4(0.0f);
    float4 product = centred * centred;
    float group_sum_1 = simd_sum(product.x + product.y + (product.z + product.w));
    if (mask_1) {
        total_parts_1[high] = group_sum_1;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total_1 = total_parts_1[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        total_1 += total_parts_1[part];
    }
    float rstd = precise::rsqrt(total_1 / converted + args.eps);
    float4 normal = centred * rstd * (mask ? *(device const float4 *)(weight + at) : float4(0.0f));
    float4 normal_1 = normal + (mask ? *(device const float4 *)(bias + at) : float4(0.0f));
    if (mask) *(device float4 *)(y + sum) = normal_1;
}
