// add_kernel(x: ptr<f32>, y: ptr<f32>, out: ptr<f32>, n: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct add_kernel_args {
    int n;
};

inline float4 eas_masked_load_packed(device const float *from, bool4 mask, float4 other) {
    if (all(mask)) return float4(*(device const packed_float4 *)from);
    return float4(mask.x ? from[0] : other.x, mask.y ? from[1] : other.y, mask.z ? from[2] : other.z, mask.w ? from[3] : other.w);
}

inline void eas_masked_store_packed(device float *to, float4 value, bool4 mask) {
    if (all(mask)) {
        *(device packed_float4 *)to = packed_float4(value);
    } else {
        if (mask.x) to[0] = value.x;
        if (mask.y) to[1] = value.y;
        if (mask.z) to[2] = value.z;
        if (mask.w) to[3] = value.w;
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void add_kernel(
    device float *x [[buffer(0)]],
    device float *y [[buffer(1)]],
    device float *out [[buffer(2)]],
    constant add_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int t = int(tid);
    int start_x = int(gid.x) * 1024;
    int at = t * 4;
    int4 i = start_x + (at + int4(0, 1, 2, 3));
    bool4 mask = i < args.n;
    int i_1 = start_x + at;
    float4 sum = eas_masked_load_packed(x + i_1, mask, float4(0.0f)) + eas_masked_load_packed(y + i_1, mask, float4(0.0f));
    threadgroup_barrier(mem_flags::mem_device);
    eas_masked_store_packed(out + i_1, sum, mask);
}
