// thread_mma_kernel(a: ptr<f32>, b: ptr<f32>, c: ptr<f32>, N: i32, K: i32)
// One threadgroup of 128 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct thread_mma_kernel_args {
    int N;
    int K;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void thread_mma_kernel(
    device const float *a [[buffer(0)]],
    device const float *b [[buffer(1)]],
    device float *__restrict c [[buffer(2)]],
    constant thread_mma_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int simdgroup = int(tid) / 32;
    int row = int(gid.y) * 8;
    int col = (int(gid.x) * 4 + simdgroup) * 8;
    simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    int product = row * args.K;
    for (int k = 0; k < args.K; k = addsat(k, 8)) {
        simdgroup_float8x8 a_tile;
        simdgroup_load(a_tile, a + (product + k), ulong(args.K));
        simdgroup_float8x8 b_tile;
        simdgroup_load(b_tile, b + (k * args.N + col), ulong(args.N));
        simdgroup_multiply_accumulate(acc, a_tile, b_tile, acc);
    }
    simdgroup_store(acc, c + (row * args.N + col), ulong(args.N));
}
