// rms_norm_kernel(x: ptr<f32>, weight: ptr<f32>, y: ptr<f32>, n_cols: i32, eps: f32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct rms_norm_kernel_args {
    int n_cols;
    float eps;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void rms_norm_kernel(
    device const float *x [[buffer(0)]],
    device const float *weight [[buffer(1)]],
    device float *__restrict y [[buffer(2)]],
    constant rms_norm_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    float4 values;
    threadgroup float parts[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    int at = t * 4;
    float4 total = float4(-0.0f);
    bool mask = at < args.n_cols;
    float4 values_1 = mask ? *(device const float4 *)(x + (start + at)) : float4(0.0f);
    values = values_1;
    total = total + values_1 * values_1;
    float group_sum = simd_sum(total.x + total.y + (total.z + total.w));
    int high = t >> 5;
    if ((t & 31) == 0) {
        parts[high] = group_sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float parts_value = parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        parts_value = parts_value + parts[part];
    }
    float rstd = precise::rsqrt(parts_value / float(args.n_cols) + args.eps);
    float4 values_2 = values;
    bool mask_1 = at < args.n_cols;
    float4 normal = values_2 * rstd * (mask_1 ? *(device const float4 *)(weight + at) : float4(0.0f));
    if (mask_1) *(device float4 *)(y + (start + at)) = normal;
}
