// dropout_kernel(x: ptr<f32>, y: ptr<f32>, n: i32, p: f32, seed: i32)
// One threadgroup of 64 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct dropout_kernel_args {
    int n;
    float p;
    int seed;
};

inline uint4 eas_philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        uint2 high = mulhi(uint2(0xD2511F53u, 0xCD9E8D57u), counter.xz);
        uint2 low = uint2(0xD2511F53u, 0xCD9E8D57u) * counter.xz;
        counter = uint4(high.y ^ counter.y ^ key.x, low.y, high.x ^ counter.w ^ key.y, low.x);
        key += uint2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

[[max_total_threads_per_threadgroup(64)]]
kernel void dropout_kernel(
    device const float *x [[buffer(0)]],
    device float *__restrict y [[buffer(1)]],
    constant dropout_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int t = int(tid);
    int start_x = int(gid.x) * 256;
    ulong converted = ulong(args.seed);
    uint converted_1 = uint(converted);
    uint converted_2 = uint(converted >> 32);
    float difference = 1.0f - args.p;
    int at = t * 4;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int at_1 = at + r;
        int i = start_x + at_1;
        uint4 random = eas_philox(uint4(uint(i), 0u, 0u, 0u), uint2(converted_1, converted_2));
        int bitcast = as_type<int>(random.x);
        bool keep = float(bitcast < 0 ? int(-uint(bitcast) - 1u) : bitcast) * 4.6566126e-10f >= args.p;
        float value = i < args.n ? x[i] : 0.0f;
        if (i < args.n) y[i] = keep ? value / difference : 0.0f;
    }
}
