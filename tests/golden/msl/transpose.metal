// transpose_kernel(x: ptr<f32>, y: ptr<f32>, M: i32, N: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct transpose_kernel_args {
    int M;
    int N;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void transpose_kernel(
    device const float *x [[buffer(0)]],
    device float *__restrict y [[buffer(1)]],
    constant transpose_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    alignas(16) threadgroup float values[1024];
    int t = int(tid);
    int product = int(gid.y) * 32;
    int product_1 = int(gid.x) * 32;
    int row = t >> 3;
    int column = (t & 7) * 4;
    int rows = product + row;
    int cols = product_1 + column;
    float4 values_1 = rows < args.M && cols < args.N ? *(device const float4 *)(x + (rows * args.N + cols)) : float4(0.0f);
    *(threadgroup float4 *)(values + (row * 32 + column)) = values_1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int column_1 = column + r;
        int cols_1 = product_1 + row;
        int rows_1 = product + column_1;
        float values_2 = values[column_1 * 32 + row];
        if (cols_1 < args.N && rows_1 < args.M) y[cols_1 * args.M + rows_1] = values_2;
    }
}
